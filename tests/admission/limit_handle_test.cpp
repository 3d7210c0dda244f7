#include "canigo/limit_handle.hpp"

#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/time_source.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/error.hpp>

#include <memory>
#include <optional>
#include <type_traits>

using namespace canigo;
using namespace std::chrono_literals;

TEST_CASE("an acquire with an error code says how it ended, and throws nothing", "[limits]") {
  limits_run run;
  std::optional<semaphore> slots{std::in_place, run.io, semaphore_options{.priorities = 2, .queue_limit = 1}};
  std::vector<std::error_code> ends(8);
  std::vector<bool> permits(8);
  net::cancellation_signal signal;
  const auto ask = [&](std::size_t i, request r, duration hold = 0ns) {
    return [&, i, r, hold]() -> net::awaitable<void> {
      const permit p = co_await slots->acquire(r, ends[i]);
      permits[i] = static_cast<bool>(p);
      co_await sleep_for(hold);
    };
  };
  std::error_code unused;

  ends[0] = make_error_code(errc::stopped);
  run.go(ask(0, {}, 10s));
  run.time.poll();
  CHECK_FALSE(ends[0]);  // what stood there before is gone
  CHECK(permits[0]);

  run.go(ask(1, {.deadline = run.time.now() + 1s}));
  run.time.poll();
  run.go(ask(2, {}));
  run.time.poll();
  CHECK(ends[2] == errc::queue_full);
  run.time.run_for(2s);
  CHECK(ends[1] == errc::timed_out);

  run.go(ask(3, {.priority = 2}));
  run.go(ask(4, {.tokens = 2}));
  run.time.poll();
  CHECK(ends[3] == errc::invalid_priority);
  CHECK(ends[4] == errc::too_large);

  run.go(ask(5, {}), signal, unused);
  run.time.poll();
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(ends[5] == net::error::operation_aborted);

  run.go(ask(6, {}));
  run.time.run_for(20s);
  CHECK_FALSE(ends[6]);  // waited, and was granted
  CHECK(permits[6]);

  slots->stop();
  run.go(ask(7, {}));
  run.time.poll();
  CHECK(ends[7] == errc::stopped);
  CHECK(permits == std::vector<bool>{true, false, false, false, false, false, true, false});
  CHECK(slots->stats().held == 0);
}

TEST_CASE("an acquire with an error code takes tokens in turn, like any other", "[limits]") {
  limits_run run;
  scheduler quota{run.io, {.rate = rate::per_second(10)}};
  std::error_code refused = make_error_code(errc::stopped);
  int granted = 0;
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 300; ++i) {
      co_await quota.acquire(0, refused);
      granted += !refused;
    }
  });
  run.time.run_for(10s);
  CHECK(granted == 100);
  run.time.run();
  CHECK(granted == 300);

  // One that is granted at once passes through the loop now and then.
  scheduler full{run.io, {.rate = rate::per_second(1), .burst = 1000, .initial_tokens = 1000}};
  int rounds = 0;
  bool done = false;
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 1000; ++i) co_await full.acquire(request{}, refused);
    done = true;
  });
  while (!done) {
    run.io.restart();
    run.io.run_one();
    ++rounds;
  }
  CHECK(rounds >= 1000 / 128);
}

// A bare number might be a class or a weight of a semaphore, so it is neither.
template <class L>
concept takes_a_number = requires(L& l) { l.try_acquire(3); };
static_assert(takes_a_number<scheduler> && takes_a_number<limiter> && !takes_a_number<semaphore>);
