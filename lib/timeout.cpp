#include "canigo/timeout.hpp"

#include "canigo/detail/context/suspend.hpp"
#include "canigo/error.hpp"
#include "canigo/time_source.hpp"

#include <asio/error.hpp>

#include <tuple>

namespace canigo {

namespace {

using namespace detail;

/// A coroutine that sleeps. The sleep ends when its deadline calls, or when a cancellation takes the deadline back.
class sleeper : public suspended, private deadline {
 public:
  using results = std::tuple<std::error_code>;

  sleeper(time_source& time, net::any_io_executor executor) noexcept
      : deadline{&sleeper::called}, time_{time}, executor_{std::move(executor)} {}

  void sleep_until(time_point t) noexcept {
    if (t <= time_.now()) {
      end({});
    } else {
      wait_until(t);
    }
  }

  void fail() noexcept { end(make_error_code(errc::not_enough_memory)); }

  results take_results() noexcept { return {result_}; }
  void abandon() noexcept { std::ignore = time_.cancel(*this); }
  void request_cancel() noexcept {
    if (time_.cancel(*this)) end(net::error::operation_aborted);
  }
  const net::any_io_executor& home_executor() const noexcept { return executor_; }

 protected:
  ~sleeper() = default;

 private:
  static void called(deadline& d, due why) noexcept {
    auto& s = static_cast<sleeper&>(d);
    if (why == due::shutdown) {
      s.destroy();
    } else {
      s.end(s.result_);
    }
  }

  void end(std::error_code result) noexcept {
    result_ = result;
    try {
      post();
    } catch (...) {
      wait_until(saturating_add(time_.now(), retry_after));
    }
  }

  /// If the context is gone, this is destroyed.
  void wait_until(time_point t) noexcept {
    if (!time_.arm(*this, t)) destroy();
  }

  time_source& time_;
  net::any_io_executor executor_;
  std::error_code result_;
};

}  // namespace

net::awaitable<void> sleep_until(time_point t) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  time_source& time = time_source::of(executor);
  frame_room<256> room;
  co_await park<std::error_code>([&time, &executor, &room, t](auto&& handler) noexcept {
    std::decay_t<decltype(handler)> h(std::forward<decltype(handler)>(handler));
    auto* s = make_suspended_in<sleeper>(room, h, time, executor);
    try {
      s->allow_cancel();
    } catch (...) {
      s->fail();
      return;
    }
    s->sleep_until(t);
  });
}

net::awaitable<void> sleep_for(duration d) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  co_await sleep_until(saturating_add(time_source::of(executor).now(), d));
}

}  // namespace canigo
