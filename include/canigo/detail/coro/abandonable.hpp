#pragma once

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/coro/child.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/error.hpp>

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// Reports the end of an operation to its caller, who may stop waiting before that end. The caller and the operation
/// share this object.
class abandonable_end {
 public:
  explicit abandonable_end(const net::any_io_executor& executor);
  ~abandonable_end();
  abandonable_end(const abandonable_end&) = delete;
  abandonable_end& operator=(const abandonable_end&) = delete;

  bool has_ended() const noexcept { return has_ended_.load(std::memory_order_acquire); }
  /// Waits until the operation has ended, or until `t`. Returns the error of the wait: errc::timed_out,
  /// operation_aborted, or none.
  net::awaitable<std::error_code> wait_until(time_point t);

  /// A token that the operation holds while it runs. Its destructor, on any thread, reports the end of the operation.
  class running {
   public:
    explicit running(std::shared_ptr<abandonable_end> end);
    running(running&&) noexcept = default;
    running& operator=(running&&) = delete;
    ~running();

   private:
    std::shared_ptr<abandonable_end> end_;
    permit inside_;
  };

 private:
  admission* idle_;
  std::atomic<bool> has_ended_{false};
};

/// An abandonable_end with the operation's result. Until the operation has ended, only the operation may use the data
/// members.
template <class T>
class abandonable : public abandonable_end {
 public:
  using abandonable_end::abandonable_end;

  /// Runs `op`, and stores its value or its exception in `self`. If this coroutine never starts, neither is stored.
  static net::awaitable<void> run(std::shared_ptr<abandonable> self, running, net::awaitable<T> op) {
    try {
      if constexpr (std::is_void_v<T>) {
        co_await std::move(op);
        self->value_.emplace();
      } else {
        self->value_.emplace(co_await std::move(op));
      }
    } catch (...) {
      self->failure_ = std::current_exception();
    }
  }

  /// Returns the value of the operation, which has ended. If there is no value, throws the first of these errors that
  /// applies:
  /// - `late`, if it is set: the error with which the caller stopped waiting.
  /// - operation_aborted, if the operation was told to end, or never started.
  /// - The operation's own exception.
  T take(std::error_code late, bool was_told_to_end) {
    if (!value_) {
      if (late) throw std::system_error{late};
      if (was_told_to_end || !failure_) throw std::system_error{net::error::operation_aborted};
      std::rethrow_exception(failure_);
    }
    if constexpr (!std::is_void_v<T>) return std::move(*value_);
  }

 private:
  struct nothing {};
  std::optional<std::conditional_t<std::is_void_v<T>, nothing, T>> value_;
  std::exception_ptr failure_;
};

}  // namespace canigo::detail
