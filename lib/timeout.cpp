#include "canigo/timeout.hpp"

#include "canigo/detail/context/suspend.hpp"
#include "canigo/detail/context/timed_wait.hpp"
#include "canigo/error.hpp"
#include "canigo/time_source.hpp"

#include <asio/error.hpp>

#include <tuple>

namespace canigo {

namespace {

using namespace detail;

/// The waiter of a coroutine that sleeps.
class sleeper : public timed_wait {
 public:
  using results = std::tuple<std::error_code>;
  using timed_wait::wait_until;

  sleeper(time_source& time, net::any_io_executor executor) noexcept
      : timed_wait{time}, executor_{std::move(executor)} {}

  void fail() noexcept { end_with(make_error_code(errc::not_enough_memory)); }

  results take_results() noexcept { return {result_}; }
  void abandon() noexcept { std::ignore = take_back(); }
  void request_cancel() noexcept {
    if (take_back()) end_with(net::error::operation_aborted);
  }
  const net::any_io_executor& home_executor() const noexcept { return executor_; }

 protected:
  ~sleeper() = default;

 private:
  void end_with(std::error_code result) noexcept {
    result_ = result;
    end();
  }

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
    s->wait_until(t);
  });
}

net::awaitable<void> sleep_for(duration d) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  co_await sleep_until(saturating_add(time_source::of(executor).now(), d));
}

}  // namespace canigo
