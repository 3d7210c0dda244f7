#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/net.hpp"
#include "canigo/time_source.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/cancellation_state.hpp>
#include <asio/co_spawn.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <memory>
#include <system_error>
#include <utility>

namespace canigo::detail {

/// A coroutine that another one waits for, and that can be cancelled from any thread.
///
/// It runs on a strand, as neither a cancellation signal nor a coroutine stands two threads at once.
class child : public std::enable_shared_from_this<child> {
 public:
  explicit child(const net::any_io_executor& parent);
  virtual ~child() = default;
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  /// Runs on the strand from construction to destruction: the operation of a child, as far as that can be cancelled.
  class life {
   public:
    explicit life(child& c);
    ~life() { child_.is_over_ = true; }
    life(const life&) = delete;
    life& operator=(const life&) = delete;

   private:
    child& child_;
  };

  /// Asks it to end, by a post to its strand. Before it has started it then never does; once it has ended this does
  /// nothing.
  void cancel(net::cancellation_type type) { cancel(type, false); }
  /// The same (terminal) by what runs it, and for good: a limit that is over, a source, a group. However the operation
  /// ends then, if not with a result, it has ended for that: `a || b` makes an exception of its own of a cancellation,
  /// a channel an error of its own.
  void end() { cancel(net::cancellation_type::terminal, true); }
  /// Whether that came before its end, and before a terminal cancellation. Once it has ended.
  bool was_ended() const noexcept { return was_ended_; }
  /// It has ended, or has gone: what may outlive the context, such as a result, keeps no strand of it.
  void let_go_of_strand() noexcept;

  /// Before it has started.
  const net::any_io_executor& executor() const noexcept { return executor_; }
  net::cancellation_slot slot() noexcept { return signal_.slot(); }

 private:
  void cancel(net::cancellation_type type, bool for_good);

  mutex mutex_;
  net::any_io_executor executor_;
  net::cancellation_signal signal_;
  bool is_started_ = false;    // this and the next on the strand only, and none changes any more once it is over
  bool is_cancelled_ = false;  // before it started
  bool is_asked_to_end_ = false;
  bool was_ended_ = false;  // before it was asked otherwise
  bool is_over_ = false;
};

/// The first frame of a child: heeds all kinds of cancellation, as its parent has chosen already which ones come here.
template <class T>
net::awaitable<T> child_main(std::shared_ptr<child> c, net::awaitable<T> op) {
  co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
  const child::life life{*c};
  co_return co_await std::move(op);
}

/// Runs `op` as the child `c` of the calling coroutine, whose own cancellation is passed on. Where it has no result
/// after c->end(), throws `ended`.
template <class T>
net::awaitable<T> run_child(std::shared_ptr<child> c, net::awaitable<T> op, std::error_code ended) {
  const net::cancellation_state state = co_await net::this_coro::cancellation_state;
  if (auto slot = state.slot(); slot.is_connected()) {
    // Not to keep it: the signal may outlive the child, and the context that its strand belongs to.
    slot.assign([weak = std::weak_ptr<child>{c}](net::cancellation_type type) {
      if (const auto own = weak.lock()) own->cancel(type);
    });
  }
  try {
    auto token = net::bind_cancellation_slot(c->slot(), net::use_awaitable);
    co_return co_await net::co_spawn(c->executor(), child_main(c, std::move(op)), std::move(token));
  } catch (...) {
    if (!c->was_ended()) throw;
  }
  throw std::system_error{ended};
}

/// A child that is ended when its time is up.
class timed_child : public child {
 public:
  explicit timed_child(const net::any_io_executor& parent);

  void start(time_point deadline);
  /// The child has ended.
  void stop() noexcept;

 private:
  struct limit : deadline {
    explicit limit(timed_child& c) noexcept;
    timed_child* owner;
  };

  time_source& time_;
  limit limit_;
  std::shared_ptr<child> self_;  // while the deadline is armed
};

}  // namespace canigo::detail
