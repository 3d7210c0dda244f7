#include "canigo/limit_handle.hpp"

#include "canigo/adaptive_limit.hpp"
#include "canigo/keyed.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/time_source.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/error.hpp>

#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

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
}

TEST_CASE("an acquire with an error code that is granted at once passes through the loop now and then",
          "[limits][loop_turns]") {
  limits_run run;
  std::error_code refused = make_error_code(errc::stopped);
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

namespace {

/// How a wait ends that is too late after a second, and one that comes while it waits.
template <class Limit, class Acquire>
std::pair<std::string, std::string> texts_of(limits_run& run, Limit& limit, Acquire acquire) {
  const auto texts = std::make_shared<std::pair<std::string, std::string>>();
  const auto ask = [=, &limit](bool is_first, time_point deadline) -> net::awaitable<void> {
    std::string text;
    try {
      (void)co_await acquire(limit, request{.deadline = deadline});
    } catch (const std::system_error& e) {
      text = said_by(e);
    }
    (is_first ? texts->first : texts->second) = text;
  };
  run.go([=, &run]() { return ask(true, run.time.now() + 1s); });
  run.time.poll();
  run.go([=]() { return ask(false, time_point::max()); });
  run.time.run_for(2s);
  return *texts;
}

constexpr auto plainly = [](auto& limit, request r) { return limit.acquire(r); };

}  // namespace

TEST_CASE("an error says in whose queue the wait ended, and which limit refused", "[limits]") {
  limits_run run;
  const auto slow = [&](const std::string& name) {
    semaphore cap{run.io, {.queue_limit = 1, .name = name}};
    const auto held = cap.try_acquire();
    const auto texts = texts_of(run, cap, plainly);
    cap.stop();
    run.time.poll();
    return texts;
  };
  CHECK(slow("crm").first == "in the queue of crm: timed out");
  CHECK(slow("crm").second == "crm: the queue is full");
  CHECK(slow("").first == "in the queue of a limit: timed out");
  CHECK(slow("").second == "the queue is full");
  CHECK(slow("c\nr").second == "c?r: the queue is full");

  scheduler rates{run.io, {.rate = rate::per_hour(1), .name = "rates"}};
  const auto too_late = texts_of(run, rates, plainly);
  CHECK(too_late.first == "rates: the deadline can't be met");
  rates.stop();
  run.time.poll();
  CHECK(texts_of(run, rates, plainly).first == "rates: stopped");

  limiter both{run.io, {.rates = {{rate::per_second(1), 1, 1}}, .concurrency = 1, .name = "both"}};
  const auto one = both.try_acquire();
  CHECK(texts_of(run, both, plainly).first == "in the queue of both: timed out");
  both.stop();
  run.time.poll();

  adaptive_limit db{run.io, {.initial = 1, .name = "db"}};
  const auto call = db.try_acquire();
  CHECK(texts_of(run, db, plainly).first == "in the queue of db: timed out");
  db.stop();
  run.time.poll();

  keyed_semaphore<std::string> clients{run.io, {.name = "clients"}};
  const auto of_a = clients.try_acquire("a");
  const auto as_a = [](auto& limit, request r) { return limit.acquire("a", r); };
  CHECK(texts_of(run, clients, as_a).first == "in the queue of clients: timed out");
  clients.stop();
  run.time.poll();
}

TEST_CASE("a time limit around a wait says in whose queue it passed", "[limits]") {
  limits_run run;
  std::optional<semaphore> cap{std::in_place, run.io, semaphore_options{.name = "cap"}};
  const auto held = cap->try_acquire();
  const auto inside = [](semaphore& s, request) { return with_timeout(with_timeout(s.acquire(), 3s), 1s); };
  CHECK(texts_of(run, *cap, inside).first == "in the queue of cap: timed out");

  // The limit may go before its waiter is told.
  std::string text;
  run.go([&]() -> net::awaitable<void> {
    try {
      (void)co_await cap->acquire();
    } catch (const std::system_error& e) {
      text = said_by(e);
    }
  });
  run.time.poll();
  cap.reset();
  run.time.poll();
  CHECK(text == "in the queue of cap: stopped");
}
