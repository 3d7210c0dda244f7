#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/shared_alarm.hpp"
#include "canigo/detail/coro/end_request.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/cancellation_state.hpp>
#include <asio/co_spawn.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// Storage in which a coroutine on another executor leaves its result for the coroutine that waits for it.
///
/// It is part of the frame of the waiting coroutine. The result does not pass through Asio's co_spawn, for two reasons.
/// co_spawn returns a result only if T has a default constructor. If T's move constructor throws in co_spawn, the
/// exception leaves the event loop. The waiting coroutine lives until the other coroutine has ended, because the
/// completion handler owns the waiting coroutine.
template <class T>
class left_result {
 public:
  void leave(T&& value) { value_.emplace(std::move(value)); }
  T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
};

template <>
class left_result<void> {
 public:
  void take() const noexcept {}
};

/// A coroutine that another coroutine waits for, and that any thread can cancel.
///
/// It runs on a strand, because two threads must not use a cancellation signal or a coroutine at the same time.
class child : public std::enable_shared_from_this<child> {
 public:
  explicit child(const net::any_io_executor& parent);
  virtual ~child() = default;
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  /// An object of this class exists while the operation of the child runs. During this time the child can be cancelled.
  /// Used only on the strand.
  class life {
   public:
    explicit life(child& c);
    ~life() { child_.is_over_ = true; }
    life(const life&) = delete;
    life& operator=(const life&) = delete;

   private:
    child& child_;
  };

  /// Cancels the child by a post to its strand. A child that has not started yet will not start. A child that has
  /// ended is not affected.
  void cancel(net::cancellation_type type) { cancel(type, false); }
  /// Cancels the child (terminal) for its owner, which is a time limit, a cancel_source or a group. If the operation
  /// then throws, an exception of any type counts as caused by end(). For example, `a || b` and channels react to a
  /// cancellation with exceptions of their own types.
  void end() { cancel(net::cancellation_type::terminal, true); }
  /// Whether end() was called before the child ended, and before any other terminal cancellation. Call was_ended()
  /// after the child has ended.
  bool was_ended() const noexcept { return request_.is_of_owner(); }
  /// Releases the strand; call it when the child has ended. A child that is stored for its result may outlive the
  /// context, but a strand must not.
  void let_go_of_strand() noexcept;

  /// The strand of the child. Call it before the child has started.
  const net::any_io_executor& executor() const noexcept { return executor_; }
  net::cancellation_slot slot() noexcept { return signal_.slot(); }

 private:
  void cancel(net::cancellation_type type, bool for_good);

  mutex mutex_;
  net::any_io_executor executor_;
  net::cancellation_signal signal_;
  // Only functions on the strand use is_started_ and is_cancelled_. Both stay unchanged after the end of the child.
  bool is_started_ = false;
  bool is_cancelled_ = false;  // whether the child was cancelled before it started
  bool is_over_ = false;
  end_request request_;
};

/// The outermost coroutine of a child; it runs `op`. It accepts all types of cancellation, because the parent coroutine
/// has already filtered them.
template <class T>
net::awaitable<void> child_main(std::shared_ptr<child> c, net::awaitable<T> op, left_result<T>* result) {
  co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
  const child::life life{*c};
  if constexpr (std::is_void_v<T>) {
    co_await std::move(op);
  } else {
    result->leave(co_await std::move(op));
  }
}

/// Runs `op` as the child `c` of the calling coroutine, and passes the coroutine's own cancellation on. If `op` has no
/// result after c->end(), run_child() throws the error `ended`; the text of the error says where `op` waited, if that
/// is known.
template <class T>
net::awaitable<T> run_child(std::shared_ptr<child> c, net::awaitable<T> op, std::error_code ended) {
  const net::cancellation_state state = co_await net::this_coro::cancellation_state;
  if (auto slot = state.slot(); slot.is_connected()) {
    // The slot holds a weak reference, because the signal may outlive the child and the context of its strand.
    slot.assign([weak = std::weak_ptr<child>{c}](net::cancellation_type type) {
      if (const auto own = weak.lock()) own->cancel(type);
    });
  }
  try {
    left_result<T> result;
    auto token = net::bind_cancellation_slot(c->slot(), net::use_awaitable);
    co_await net::co_spawn(c->executor(), child_main(c, std::move(op), &result), std::move(token));
    co_return result.take();
  } catch (const error_at& e) {
    if (!c->was_ended()) throw;
    throw error_at{ended, std::string{e.place()}};
  } catch (...) {
    if (!c->was_ended()) throw;
  }
  throw std::system_error{ended};
}

/// A child that is ended when a deadline passes.
class timed_child : public child {
 public:
  explicit timed_child(const net::any_io_executor& parent);

  void start(time_point deadline) noexcept { alarm_.set(deadline, *this); }
  /// Disarms the deadline. Call it when the child has ended.
  void stop() noexcept { std::ignore = alarm_.disarm(); }

 private:
  shared_alarm<child> alarm_;
};

}  // namespace canigo::detail
