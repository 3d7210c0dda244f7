#include "canigo/stop_on_signals.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/strand.hpp>

#include <csignal>
#include <exception>

namespace canigo {

class stop_on_signals::watch : public std::enable_shared_from_this<watch> {
 public:
  watch(const net::any_io_executor& executor, std::function<void(stop_mode, duration)> stop, duration grace)
      : strand_{executor}, signals_{strand_, SIGINT, SIGTERM}, stop_{std::move(stop)}, grace_{grace} {}

  // On the strand only, like all that follows.
  void wait() {
    signals_.async_wait([self = shared_from_this()](std::error_code ec, int) {
      if (ec || self->is_over_) return;
      if (std::exchange(self->is_second_, true)) {
        self->stop_(stop_mode::cancel_all, duration::max());
      } else {
        self->stop_(stop_mode::finish_running, self->grace_);
      }
      self->wait();
    });
  }
  void end() {
    is_over_ = true;
    std::error_code ignored;
    signals_.clear(ignored);
    signals_.cancel(ignored);
  }
  const net::strand<net::any_io_executor>& strand() const noexcept { return strand_; }

 private:
  net::strand<net::any_io_executor> strand_;
  net::signal_set signals_;
  std::function<void(stop_mode, duration)> stop_;
  duration grace_;
  bool is_second_ = false;
  bool is_over_ = false;
};

stop_on_signals::stop_on_signals(const net::any_io_executor& executor, std::function<void(stop_mode, duration)> stop,
                                 net::awaitable<stop_report> closed, const signal_options& o)
    : watch_{std::make_shared<watch>(executor, std::move(stop), o.grace)} {
  net::post(watch_->strand(), [w = watch_] { w->wait(); });
  net::co_spawn(watch_->strand(), std::move(closed),
                [w = watch_](std::exception_ptr, const stop_report&) { w->end(); });
}

stop_on_signals::~stop_on_signals() {
  try {
    net::post(watch_->strand(), [w = watch_] { w->end(); });
  } catch (...) {  // without memory they stay until the pool has stopped
  }
}

}  // namespace canigo
