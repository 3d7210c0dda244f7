#pragma once

#include "canigo/detail/mutex.hpp"
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

#include <atomic>
#include <memory>
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

  /// Asks it to end, by a post to its strand. Before it has started it then never does; once it has ended this does
  /// nothing.
  void cancel(net::cancellation_type type);
  /// It has ended, or has gone: what may outlive the context, such as a result, keeps no strand of it.
  void let_go_of_strand() noexcept;

  /// Called by the child itself, first of all.
  void started();

  /// Before it has started.
  const net::any_io_executor& executor() const noexcept { return executor_; }
  net::cancellation_slot slot() noexcept { return signal_.slot(); }

 private:
  mutex mutex_;
  net::any_io_executor executor_;
  net::cancellation_signal signal_;
  bool is_started_ = false;    // this and the next on the strand only
  bool is_cancelled_ = false;  // before it started
};

/// The first frame of a child: heeds all kinds of cancellation, as its parent has chosen already which ones come here.
template <class T>
net::awaitable<T> child_main(std::shared_ptr<child> c, net::awaitable<T> op) {
  co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
  c->started();
  co_return co_await std::move(op);
}

/// Runs `op` as the child `c` of the calling coroutine, whose own cancellation is passed on.
template <class T>
net::awaitable<T> run_child(std::shared_ptr<child> c, net::awaitable<T> op) {
  const net::cancellation_state state = co_await net::this_coro::cancellation_state;
  if (auto slot = state.slot(); slot.is_connected()) {
    // Not to keep it: the signal may outlive the child, and the context that its strand belongs to.
    slot.assign([weak = std::weak_ptr<child>{c}](net::cancellation_type type) {
      if (const auto own = weak.lock()) own->cancel(type);
    });
  }
  auto token = net::bind_cancellation_slot(c->slot(), net::use_awaitable);
  co_return co_await net::co_spawn(c->executor(), child_main(c, std::move(op)), std::move(token));
}

/// A child that is cancelled when its time is up.
class timed_child : public child {
 public:
  explicit timed_child(const net::any_io_executor& parent);

  void start(time_point deadline);
  /// The child has ended; true if that was at our request.
  bool stop() noexcept;

 private:
  struct limit : deadline {
    explicit limit(timed_child& c) noexcept;
    timed_child* owner;
  };

  time_source& time_;
  limit limit_;
  std::shared_ptr<child> self_;  // while the deadline is armed
  std::atomic<bool> is_late_{false};
};

}  // namespace canigo::detail
