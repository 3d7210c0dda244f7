#include "canigo/circuit_breaker.hpp"

#include "canigo/cancel.hpp"
#include "canigo/error.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/timeout.hpp"
#include "canigo/with_limit.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"
#include "support/refusal.hpp"
#include "support/sanitized.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace breaker_tests {

const circuit_breaker_options small{
    .failures = 50, .least_calls = 4, .window = 10s, .open_for = 5s, .most_open_for = 20s, .probes = 2};

net::awaitable<void> fails_after(duration d) {
  co_await sleep_for(d);
  throw std::runtime_error{"upstream fell over"};
}

net::awaitable<int> refused_with(std::error_code code) {
  throw std::system_error{code};
  co_return 0;
}

template <class T>
net::awaitable<void> ends_with(net::awaitable<T> op, std::error_code wanted) {
  const std::error_code how = co_await outcome_of(std::move(op));
  CHECK(how == wanted);
}

net::awaitable<void> gives(net::awaitable<int> op, int wanted) {
  const int answer = co_await std::move(op);
  CHECK(answer == wanted);
}

template <class T>
net::awaitable<void> says(net::awaitable<T> op, std::string wanted) {
  std::string what = co_await outcome_of_any(std::move(op));
  what.resize(std::min(what.find(" ["), what.size()));  // where Boost.System adds the category and the number
  CHECK(what == wanted);
}

/// Opens it by failures at this moment.
void trip(circuit_breaker& b) {
  while (auto p = b.try_enter()) p->failed();
}

class diary final : public circuit_observer {
 public:
  explicit diary(limits_run& r) : run_{r} {}
  void state_changed(const circuit_change& c) noexcept override {
    run_.note(std::string{to_string(c.from)} + ">" + std::string{to_string(c.to)});
    last = c;
  }
  circuit_change last;

 private:
  limits_run& run_;
};

TEST_CASE("with_breaker refuses at once while the callee fails, and lets probes go when open_for is over",
          "[breaker]") {
  limits_run run;
  diary told{run};
  auto options = small;
  options.observer = &told;
  circuit_breaker b{run.io, options};
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 4; ++i) co_await says(with_breaker(fails_after(10ms), b), "upstream fell over");
    CHECK(b.state() == circuit_state::open);
    bool started = false;
    const auto call = [&]() -> net::awaitable<int> {
      started = true;
      co_return 1;
    };
    co_await sleep_for(1s);
    co_await ends_with(with_breaker(call(), b), errc::circuit_open);
    CHECK_FALSE(started);
    co_await says(with_breaker(call(), b), "circuit_breaker: the circuit is open");
    try {
      (void)b.enter();
      FAIL("it is open");
    } catch (const circuit_open_error& e) {
      CHECK(e.open_for() == 4s);
    }
    co_await sleep_for(4s);
    CHECK(b.state() == circuit_state::half_open);
    co_await gives(with_breaker(call(), b), 1);
    co_await gives(with_breaker(answer_after(10ms), b), 42);
    CHECK(b.state() == circuit_state::closed);
  });
  run.time.run();
  CHECK(run.log == log_lines{"closed>open@40", "open>half_open@5040", "half_open>closed@5050"});
  CHECK(told.last.number == 3);
  const auto s = b.stats();
  CHECK(s.succeeded == 2);
  CHECK(s.failed == 4);
  CHECK(s.refused == 3);
  CHECK(s.opened == 1);
  CHECK(s.changes == 3);
  CHECK(s.unreported + s.would_refuse + s.slow + s.counted.calls == 0);
}

TEST_CASE("a cancelled call is no sample, and a cancelled probe frees its place", "[breaker]") {
  limits_run run;
  circuit_breaker b{run.io, small};
  net::cancellation_signal signal;
  std::error_code ended;
  const auto hang = [&]() -> net::awaitable<void> { co_await with_breaker(sleep_for(1h), b); };
  run.go(hang, signal, ended);
  run.time.poll();
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(ended == net::error::operation_aborted);
  CHECK(b.stats().counted.calls == 0);
  CHECK(b.stats().unreported == 1);

  // However it ends when it is cancelled.
  run.go(
      [&]() -> net::awaitable<void> {
        const auto odd = []() -> net::awaitable<void> {
          co_await outcome_of(sleep_for(1h));
          throw std::runtime_error{"odd"};
        };
        co_await with_breaker(odd(), b);
      },
      signal, ended);
  run.time.poll();
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(b.stats().counted.calls == 0);

  trip(b);
  run.time.run_for(5s);
  run.go(hang, signal, ended);
  std::optional<circuit_pass> other;
  run.go([&]() -> net::awaitable<void> {
    other = b.try_enter();
    CHECK(other);
    CHECK_FALSE(b.try_enter());
    co_return;
  });
  run.time.poll();
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  auto next = b.try_enter();
  CHECK(next);
  CHECK_FALSE(b.try_enter());
  CHECK(b.state() == circuit_state::half_open);
  next.reset();  // never reports
  CHECK(b.try_enter());
}

TEST_CASE("a timeout is a failure inside of a breaker, and no sample outside", "[breaker]") {
  limits_run run;
  circuit_breaker b{run.io, small};
  run.go([&]() -> net::awaitable<void> {
    co_await ends_with(with_timeout(with_breaker(sleep_for(1h), b), 1s), errc::timed_out);
    CHECK(b.stats().failed == 0);
    CHECK(b.stats().unreported == 1);
    co_await ends_with(with_breaker(with_timeout(sleep_for(1h), 1s), b), errc::timed_out);
    CHECK(b.stats().failed == 1);
  });
  run.time.run();
}

TEST_CASE("what a limit of this program refuses says nothing about the callee", "[breaker]") {
  limits_run run;
  circuit_breaker b{run.io, small};
  run.go([&]() -> net::awaitable<void> {
    for (const errc code : {errc::queue_full, errc::evicted, errc::deadline_unreachable, errc::stopped,
                            errc::circuit_open, errc::too_large, errc::invalid_argument, errc::not_enough_memory}) {
      co_await ends_with(with_breaker(refused_with(code), b), code);
    }
    co_await ends_with(with_breaker(refused_with(net::error::operation_aborted), b), net::error::operation_aborted);
    CHECK(b.stats().unreported == 9);
    CHECK(b.stats().failed == 0);
    for (const std::error_code code : {make_error_code(errc::timed_out), make_error_code(errc::overloaded),
                                       std::error_code{net::error::connection_refused}}) {
      co_await ends_with(with_breaker(refused_with(code), b), code);
    }
    CHECK(b.stats().failed == 3);
  });
  run.time.run();
}

TEST_CASE("failed_if and a judge of results say what a failure is", "[breaker]") {
  limits_run run;
  auto options = small;
  options.failed_if = [](const std::exception_ptr& e) { return code_of(e) == errc::queue_full; };
  circuit_breaker b{run.io, options};
  run.go([&]() -> net::awaitable<void> {
    co_await ends_with(with_breaker(refused_with(errc::queue_full), b), errc::queue_full);
    co_await ends_with(with_breaker(refused_with(errc::timed_out), b), errc::timed_out);
    CHECK(b.stats().failed == 1);
    CHECK(b.stats().unreported == 1);
    co_await gives(with_breaker(answer_after(1ms), b, [](int n) { return n != 42; }), 42);
    co_await gives(with_breaker(answer_after(1ms), b, [](int n) { return n == 42; }), 42);
    CHECK(b.stats().failed == 2);
    CHECK(b.stats().succeeded == 1);
  });
  run.time.run();
}

TEST_CASE("a slow call is one that took longer than `slow`", "[breaker]") {
  limits_run run;
  auto options = small;
  options.slow = 2s;
  options.slow_percent = 50;
  circuit_breaker b{run.io, options};
  run.go([&]() -> net::awaitable<void> {
    co_await with_breaker(answer_after(2s), b);
    CHECK(b.stats().slow == 0);
    co_await with_breaker(answer_after(2s + 1ns), b);
    CHECK(b.stats().slow == 1);
    co_await with_breaker(answer_after(1ms), b);
    CHECK(b.state() == circuit_state::closed);
    co_await with_breaker(answer_after(3s), b);
    CHECK(b.state() == circuit_state::open);
  });
  run.time.run();
}

TEST_CASE("a breaker in shadow mode lets everybody go, and counts whom it would have refused", "[breaker]") {
  limits_run run;
  auto options = small;
  options.mode = enforcement::shadow;
  circuit_breaker b{run.io, options};
  for (int i = 0; i < 10; ++i) b.enter().failed();
  CHECK(b.state() == circuit_state::open);
  CHECK(b.stats().would_refuse == 6);
  CHECK(b.stats().failed == 10);
  run.time.run_for(5s);
  {
    const auto probe = b.enter(), another = b.enter();
    auto third = b.enter();
    CHECK(b.stats().would_refuse == 7);
    third.failed();  // not a probe
    CHECK(b.state() == circuit_state::half_open);
  }
  b.force_open();
  CHECK(b.try_enter());
  b.set_mode(enforcement::enforce);
  CHECK_FALSE(b.try_enter());
  CHECK(b.stats().refused == 1);
  CHECK(b.stats().open_for == duration::max());
  CHECK(refusal([&] {
          b.set_mode(static_cast<enforcement>(3));
        }).starts_with("circuit_breaker.set_mode: mode is 3; allowed: enforce, shadow"));
  b.force_closed();
  for (int i = 0; i < 100; ++i) b.enter().failed();
  CHECK(b.state() == circuit_state::forced_closed);
  b.reset();
  CHECK(b.state() == circuit_state::closed);
}

TEST_CASE("a pass reports once, may be moved, and may outlive its breaker and the context", "[breaker]") {
  auto run = std::make_unique<limits_run>();
  std::optional<circuit_breaker> b{std::in_place, run->io, small};
  circuit_pass p = b->enter();
  circuit_pass q{std::move(p)};
  CHECK_FALSE(p);
  p.succeeded();
  q.failed();
  q.succeeded();
  CHECK_FALSE(q);
  CHECK(b->stats().failed == 1);
  CHECK(b->stats().succeeded == 0);
  p = b->enter();
  q = b->enter();
  q = std::move(p);
  CHECK(b->stats().unreported == 1);
  circuit_pass late = b->enter();
  b.reset();
  q.succeeded();
  b.emplace(run->io, small);
  circuit_pass later = b->enter();
  run.reset();
  later.failed();
  late.failed();
  CHECK(b->state() == circuit_state::closed);
  b->enter().succeeded();
  CHECK(b->stats().succeeded == 1);
}

TEST_CASE("the observer may destroy the breaker", "[breaker]") {
  limits_run run;
  struct executioner final : circuit_observer {
    void state_changed(const circuit_change&) noexcept override { b.reset(); }
    std::optional<circuit_breaker> b;
  } e;
  auto options = small;
  options.observer = &e;
  e.b.emplace(run.io, options);
  std::vector<circuit_pass> passes;
  for (int i = 0; i < 5; ++i) passes.push_back(e.b->enter());
  for (auto& p : passes) p.failed();
  CHECK_FALSE(e.b);
  e.b.emplace(run.io, options);
  e.b->force_open();
  CHECK_FALSE(e.b);
}

TEST_CASE("a breaker that is destroyed or whose context goes leaves calls that are under way alone", "[breaker]") {
  limits_run run;
  std::optional<circuit_breaker> b{std::in_place, run.io, small};
  int answer = 0;
  run.go([&]() -> net::awaitable<void> { answer = co_await with_breaker(answer_after(1s), *b); });
  run.time.run_for(500ms);
  b.reset();
  run.time.run();
  CHECK(answer == 42);

  auto other = std::make_unique<limits_run>();
  circuit_breaker c{other->io, small};
  other->go([&]() -> net::awaitable<void> { co_await with_breaker(sleep_for(1s), c); });
  other->time.run_for(500ms);
  other.reset();
  CHECK(c.stats().unreported == 1);
}

TEST_CASE("threads that use one breaker find never more probes than there may be", "[breaker][threads]") {
  net::io_context io;
  circuit_breaker b{io, {.failures = 50, .least_calls = 4, .window = 1s, .open_for = 1us, .probes = 3}};
  constexpr int rounds = is_sanitized ? 5'000 : 20'000;
  std::atomic<std::uint64_t> went{0}, refused{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < rounds; ++i) {
          auto p = b.try_enter();
          if (!p) {
            ++refused;
            continue;
          }
          ++went;
          if (b.state() == circuit_state::half_open) (void)b.stats();
          if (i % 3 == 0) {
            p->failed();
          } else if (i % 3 == 1) {
            p->succeeded();
          }
          if (t == 0 && i % 1000 == 999) b.reset();
          if (t == 1 && i % 1000 == 500) b.force_closed();
          if (t == 1 && i % 1000 == 600) b.force_open();
        }
      });
    }
  }
  const auto s = b.stats();
  CHECK(s.succeeded + s.failed + s.unreported == went);
  CHECK(s.refused == refused);
  CHECK(went + refused == 4 * rounds);
  b.reset();
  CHECK(b.try_enter());
}

}  // namespace breaker_tests
