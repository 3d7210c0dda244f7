#pragma once

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/shared_alarm.hpp"
#include "canigo/detail/coro/child.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/time_source.hpp"

#include <asio/awaitable.hpp>
#include <asio/cancellation_state.hpp>
#include <asio/error.hpp>
#include <asio/this_coro.hpp>

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace canigo::detail {

/// A coroutine that runs in a task_group.
class group_child : public child {
 public:
  using child::child;
  ~group_child() override;

  bool has_ended() const noexcept { return has_ended_.load(std::memory_order_acquire); }
  /// Throws the failure of the coroutine, or errc::invalid_argument if it has not ended.
  void rethrow() const;

 private:
  friend class task_group_core;
  group_child* previous_ = nullptr;  // previous_ and next_ link the running children that were not cancelled yet
  group_child* next_ = nullptr;
  bool is_listed_ = false;
  std::shared_ptr<group_child> next_failed_;
  std::exception_ptr error_;
  std::atomic<bool> has_ended_{false};
};

/// A coroutine that runs in a task_group, with storage for its result.
template <class T>
class group_child_of : public group_child {
 public:
  using group_child::group_child;
  std::optional<T> value;
};

template <>
class group_child_of<void> : public group_child {
 public:
  using group_child::group_child;
};

/// The state that a task_group and its children share. It lives as long as the group or any child.
class task_group_core : public std::enable_shared_from_this<task_group_core> {
 public:
  /// A running child, from spawn() to the destruction of its completion handler.
  class running {
   public:
    running(std::shared_ptr<task_group_core> core, std::shared_ptr<group_child> c);
    running(running&&) noexcept = default;
    running& operator=(running&&) = delete;
    ~running();
    void operator()(const std::exception_ptr& error) noexcept;

   private:
    std::shared_ptr<task_group_core> core_;
    std::shared_ptr<group_child> child_;
    permit inside_;
  };

  explicit task_group_core(const net::any_io_executor& executor);
  ~task_group_core();
  task_group_core(const task_group_core&) = delete;
  task_group_core& operator=(const task_group_core&) = delete;

  const net::any_io_executor& executor() const noexcept { return idle_->executor(); }
  std::size_t count() const noexcept { return idle_->occupied(); }
  permit occupy();
  void cancel() noexcept;
  /// Cancels the children. Call it when the group is destroyed: from then on, no caller waits for the children.
  void detach() noexcept;

  static net::awaitable<void> join(std::shared_ptr<task_group_core> self);
  static net::awaitable<std::vector<std::exception_ptr>> wait_all(std::shared_ptr<task_group_core> self);

 private:
  class joiner;
  net::awaitable<void> wait_until_idle();
  static net::awaitable<std::exception_ptr> wait_uncancelled(std::shared_ptr<task_group_core> self,
                                                             bool first_ends_all);

  void add(group_child& c);
  void remove(group_child& c) noexcept;
  void ended(const std::shared_ptr<group_child>& c, const std::exception_ptr& error) noexcept;
  void unlist(group_child& c) noexcept;
  void begin_wait(bool first_ends_all) noexcept;
  std::shared_ptr<group_child> end_wait() noexcept;
  void cancel_later() noexcept;
  void retry() noexcept;

  admission* idle_;
  time_source& time_;
  mutable mutex mutex_;
  group_child* first_ = nullptr;
  std::shared_ptr<group_child> first_failed_;
  group_child* last_failed_ = nullptr;
  bool is_cancelled_ = false;
  bool first_ends_all_ = false;  // whether the first failure cancels all children; true while a caller is in join()
  shared_alarm<task_group_core>
      retry_;  // the alarm for another attempt to cancel children, if there was no memory to cancel all of them
};

/// The first coroutine frame of a child. It accepts all types of cancellation: its group has already decided which
/// cancellations reach the child.
template <class T>
net::awaitable<void> group_child_main(std::shared_ptr<group_child_of<T>> c, net::awaitable<T> op) {
  co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
  try {
    const child::life life{*c};
    if constexpr (std::is_void_v<T>) {
      co_await std::move(op);
    } else {
      c->value.emplace(co_await std::move(op));
    }
    co_return;
  } catch (...) {
    if (!c->was_ended()) throw;
  }
  throw std::system_error{net::error::operation_aborted};
}

}  // namespace canigo::detail
