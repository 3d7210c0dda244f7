#include "canigo/stop_on_signals.hpp"

#include "canigo/detail/base/mutex.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/strand.hpp>

#include <csignal>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace canigo {

class stop_on_signals::watch : public std::enable_shared_from_this<watch> {
 public:
  watch(const net::any_io_executor& executor, std::function<void(stop_mode, duration)> stop, duration grace)
      : strand_{executor}, signals_{strand_, SIGINT, SIGTERM}, stop_{std::move(stop)}, grace_{grace} {}

  /// Starts the wait for signals on the strand. The wait ends when `closed` completes.
  template <class Result>
  void begin(net::awaitable<Result> closed) {
    begin();
    net::co_spawn(strand_, std::move(closed),
                  [self = shared_from_this()](const std::exception_ptr&, auto&&...) { self->end(); });
  }
  /// Starts a wait for one signal; later signals have no effect. Use it if `stop_` has only a reference to the object
  /// to stop. Then let_go() waits while `stop_` runs, so that the object still exists.
  void begin_for_one_signal() {
    is_for_one_signal_ = true;
    begin();
  }
  /// Starts the wait for signals. A signal calls `stop`, which returns an awaitable. The wait ends when that awaitable
  /// completes.
  void begin_with(function stop) {
    run_ = std::move(stop);
    begin();
  }
  /// Call let_go() before the object that the signals stop is destroyed. Signals after let_go() have no effect on the
  /// object.
  /// Threads: any.
  void let_go() {
    {
      const std::lock_guard lock{mutex_};
      is_gone_ = true;
    }
    net::post(strand_, [self = shared_from_this()] { self->end(); });
  }

 private:
  void begin() {
    net::post(strand_, [self = shared_from_this()] { self->wait(); });
  }
  // Waits for the next signal. This function and the following ones run only on the strand.
  void wait() {
    signals_.async_wait([self = shared_from_this()](std::error_code ec, int) {
      if (ec || self->is_over_) return;
      ++self->heard_;
      if (self->heard_ == 1) self->stop(stop_mode::finish_running, self->grace_);
      if (self->heard_ == 2) self->stop(stop_mode::cancel_all, duration::max());
      if (self->is_for_one_signal_) {
        self->end();
      } else {
        self->wait();
      }
    });
  }
  void stop(stop_mode mode, duration grace) {
    std::optional<net::awaitable<void>> running;
    {
      const std::lock_guard lock{mutex_};
      if (is_gone_) return;
      if (is_for_one_signal_) stop_(mode, grace);  // only posts handlers: no user code runs under the lock
    }
    if (!is_for_one_signal_ && stop_) stop_(mode, grace);
    try {
      if (run_) running = run_(mode, grace);
    } catch (...) {  // `run_` is no coroutine, and has thrown an exception instead of returning an awaitable
      end();
      throw;
    }
    if (running) {
      net::co_spawn(strand_, std::move(*running), [self = shared_from_this()](const std::exception_ptr& error) {
        self->end();
        if (error) std::rethrow_exception(error);
      });
    }
  }
  void end() {
    is_over_ = true;
    std::error_code ignored;
    signals_.clear(ignored);
    signals_.cancel(ignored);
  }

  net::strand<net::any_io_executor> strand_;
  net::signal_set signals_;
  std::function<void(stop_mode, duration)> stop_;
  function run_;
  duration grace_;
  bool is_for_one_signal_ = false;
  int heard_ = 0;  // the number of signals that have arrived; the third and later signals have no effect
  bool is_over_ = false;
  detail::mutex mutex_;  // With `is_for_one_signal_`, locked while `stop_` runs, so that let_go() waits for `stop_`.
  bool is_gone_ = false;
};

stop_on_signals::stop_on_signals(const net::any_io_executor& executor, std::function<void(stop_mode, duration)> stop,
                                 net::awaitable<stop_report> closed, const signal_options& o)
    : watch_{std::make_shared<watch>(executor, std::move(stop), o.grace)} {
  watch_->begin(std::move(closed));
}

stop_on_signals::stop_on_signals(const net::any_io_executor& executor, detail::signal_target target,
                                 const signal_options& o)
    : watch_{std::make_shared<watch>(executor, std::move(target.stop), o.grace)} {
  if (target.closed) {
    watch_->begin(std::move(*target.closed));
  } else {
    watch_->begin_for_one_signal();
  }
}

stop_on_signals::stop_on_signals(const net::any_io_executor& executor, function stop, const signal_options& o)
    : watch_{std::make_shared<watch>(executor, nullptr, o.grace)} {
  watch_->begin_with(std::move(stop));
}

stop_on_signals::~stop_on_signals() {
  try {
    watch_->let_go();
  } catch (...) {  // there is no memory to stop handling the signals now; they are handled until the pool has stopped
  }
}

}  // namespace canigo
