// A policy that is called inside an operation of the same policy.

#include "canigo/error.hpp"
#include "canigo/limiter.hpp"
#include "canigo/policy.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/this_coro.hpp>

#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

using namespace canigo;
using namespace std::chrono_literals;

namespace policy_inside_tests {

const auto deadlock = std::make_error_code(std::errc::resource_deadlock_would_occur);

policy_options capped(std::uint64_t concurrency) {
  return {.limits = limiter_options{.rates = {{rate::per_second(10), 100, 100}}, .concurrency = concurrency}};
}

/// Calls `p` again and again inside of its own operations, `depth` times in all. Returns how deep that went.
net::awaitable<int> dive(policy& p, int depth) {
  if (depth == 0) co_return 0;
  const auto deeper = [&p, depth] { return dive(p, depth - 1); };
  co_return 1 + co_await p.run(deeper);
}

std::error_code code_of_dive(const policy_options& options, int depth) {
  limits_run run;
  policy p{run.io, options};
  std::error_code code = errc::timed_out;
  run.go([&]() -> net::awaitable<void> { code = co_await outcome_of(dive(p, depth)); });
  run.time.run();
  if (code != errc::timed_out) CHECK(p.stats().under_way == 0);
  return code;
}

}  // namespace policy_inside_tests

using namespace policy_inside_tests;

TEST_CASE("a call inside an operation of the same policy has a place of its own, or an error", "[policy]") {
  for (const std::uint64_t cap : {1u, 2u, 3u, 7u}) {
    CHECK(code_of_dive(capped(cap), static_cast<int>(cap)) == std::error_code{});
    CHECK(code_of_dive(capped(cap), static_cast<int>(cap) + 1) == deadlock);
    // Whatever stands around the operation.
    policy_options all = capped(cap);
    all.timeout = 1h;
    all.attempt_timeout = 1h;
    all.breaker = circuit_breaker_options{};
    all.retry = retry_policy{.attempts = 3};
    all.hedge = hedge_options{.after = 1h};
    CHECK(code_of_dive(all, static_cast<int>(cap)) == std::error_code{});
    CHECK(code_of_dive(all, static_cast<int>(cap) + 1) == deadlock);
    const shared_cap share{{.permits = cap}};
    const policy_options shares{.limits = limiter_options{.share = share}};
    CHECK(code_of_dive(shares, static_cast<int>(cap)) == std::error_code{});
    CHECK(code_of_dive(shares, static_cast<int>(cap) + 1) == deadlock);
    const policy_options adapts{.adaptive = adaptive_limit_options{.initial = cap, .least = cap, .most = cap}};
    CHECK(code_of_dive(adapts, static_cast<int>(cap)) == std::error_code{});
    CHECK(code_of_dive(adapts, static_cast<int>(cap) + 1) == deadlock);
  }
  for (const bool is_late : {false, true}) {
    limits_run run;
    policy_options shadow = capped(1);
    shadow.limits->mode = is_late ? enforcement::enforce : enforcement::shadow;
    shadow.adaptive = adaptive_limit_options{.initial = 1, .most = 1};
    policy p{run.io, shadow};
    p.limits()->set_mode(enforcement::shadow);
    p.adaptive()->set_mode(enforcement::shadow);
    CHECK(p.limits()->mode() == enforcement::shadow);
    int depth = 0;
    run.go([&]() -> net::awaitable<void> { depth = co_await dive(p, 5); });
    run.time.run();
    CHECK(depth == 5);  // nobody waits, so nobody waits for itself
    p.limits()->set_mode(enforcement::enforce);
    CHECK(p.limits()->mode() == enforcement::enforce);
  }
  CHECK(code_of_dive({.limits = limiter_options{.rates = {{rate::per_second(10), 1, 1}}}}, 20) == std::error_code{});
}

TEST_CASE("a call inside an operation of a stopped policy ends with stopped, also where it would wait for itself",
          "[policy]") {
  policy_options adapts{.adaptive = adaptive_limit_options{.initial = 1, .least = 1, .most = 1}};
  for (const policy_options& options : {capped(1), adapts}) {
    limits_run run;
    policy p{run.io, options};
    std::error_code code;
    const auto work = [&]() -> net::awaitable<void> {
      p.stop();
      code = co_await outcome_of(dive(p, 1));
    };
    run.go([&]() -> net::awaitable<void> { co_await p.run(work); });
    run.time.run();
    CHECK(code == errc::stopped);
    CHECK(p.stats().succeeded == 1);
    CHECK(p.stats().under_way == 0);
  }
}

TEST_CASE("an operation whose call inside was given up waits for no place any more", "[policy]") {
  limits_run run;
  policy p{run.io, capped(2)};
  const auto inner = [] { return answer_after(1ms); };
  std::error_code late = errc::timed_out;
  const auto impatient = [&]() -> net::awaitable<void> {
    co_await sleep_for(1s);
    for (int i = 0; i < 3; ++i) {
      const std::error_code given_up = co_await outcome_of(with_timeout(p.run(inner), 1s));
      CHECK(given_up == errc::timed_out);
    }
    co_await sleep_for(10s);
  };
  const auto patient = [&]() -> net::awaitable<void> {
    co_await sleep_for(6s);
    late = co_await outcome_of(p.run(inner));
  };
  run.go([&]() -> net::awaitable<void> { co_await p.run(impatient); });
  run.go([&]() -> net::awaitable<void> { co_await p.run(patient); });
  run.time.run();
  CHECK(late == std::error_code{});
  CHECK(p.stats().succeeded == 3);
  CHECK(p.stats().under_way == 0);
}

TEST_CASE("a call that would wait for itself takes nothing, and says why", "[policy]") {
  limits_run run;
  policy p{run.io, capped(1)};
  run.go([&]() -> net::awaitable<void> {
    const auto inner = [] { return answer_after(1ms); };
    const auto outer = [&]() -> net::awaitable<void> {
      const limiter_stats before = p.limits()->stats();
      const std::string what = co_await outcome_of_any(p.run(inner));
      CHECK(
          what.starts_with("policy::run inside an operation of the same policy: "
                           "the operations of all 1 places would wait for a place: "));
      const limiter_stats after = p.limits()->stats();
      CHECK(after.tokens == before.tokens);
      CHECK(after.held == 1);
      CHECK(after.waiting == 0);
    };
    co_await p.run(outer);
    CHECK(p.limits()->stats().held == 0);
    CHECK(p.stats().refused == 1);
    CHECK(p.stats().succeeded == 1);
    CHECK(co_await p.run(inner) == 42);
  });
  run.time.run();
}

TEST_CASE("only the last call that would wait for itself is refused, and the others then have its place", "[policy]") {
  limits_run run;
  policy p{run.io, capped(3)};
  int refused = 0;
  int went = 0;
  for (int i = 0; i < 3; ++i) {
    run.go([&]() -> net::awaitable<void> {
      const auto inner = [] { return answer_after(10ms); };
      const auto outer = [&]() -> net::awaitable<void> {
        co_await sleep_for(1ms);  // all three have their places then
        const std::error_code code = co_await outcome_of(p.run(inner));
        code == deadlock ? ++refused : ++went;
      };
      co_await p.run(outer);
    });
  }
  run.time.run();
  CHECK(refused == 1);
  CHECK(went == 2);
  CHECK(p.limits()->stats().held == 0);
}

TEST_CASE("a wait holds up the places of all operations around it, not of the innermost alone", "[policy]") {
  limits_run run;
  policy p{run.io, capped(3)};
  std::error_code code;
  run.go([&]() -> net::awaitable<void> {
    const auto last = [&]() -> net::awaitable<void> {
      co_await sleep_for(10ms);  // the two others hold their places then, and wait for this one
      code = co_await outcome_of(dive(p, 1));
    };
    co_await p.run(last);
  });
  run.go([&]() -> net::awaitable<void> {
    const int depth = co_await dive(p, 3);
    CHECK(depth == 3);
    CHECK(run.ms() == 10);
  });
  run.time.run();
  CHECK(code == deadlock);
  CHECK(p.stats().under_way == 0);
}

TEST_CASE("a call that waits for itself is found behind operators, timeouts and other policies", "[policy]") {
  limits_run run;
  policy p{run.io, capped(1)};
  policy between{run.io, capped(1)};
  strand_pool pool{run.io, {.concurrency = 1}};
  int found = 0;
  run.go([&]() -> net::awaitable<void> {
    const auto leaf = [] { return answer_after(1ms); };
    const auto again = [&]() -> net::awaitable<void> {
      const std::error_code code = co_await outcome_of(p.run(leaf));
      if (code == deadlock) ++found;
    };
    const auto timed = [&] { return with_timeout(again(), 1h); };
    const auto both = [&]() -> net::awaitable<void> {
      using namespace net::experimental::awaitable_operators;
      co_await (again() && again());
    };
    const auto through = [&] { return between.run(again); };
    const auto spawned = [&]() -> net::awaitable<void> {
      const net::any_io_executor own = co_await net::this_coro::executor;
      co_await net::co_spawn(own, again(), net::use_awaitable);
    };
    co_await p.run(timed);
    CHECK(found == 1);
    co_await p.run(both);
    CHECK(found == 3);
    co_await p.run(through);
    CHECK(found == 4);
    co_await p.run(spawned);
    CHECK(found == 5);
    // And a task of a pool is found behind a policy.
    const auto submits = [&](task_context&) -> net::awaitable<void> {
      const auto waits = [&]() -> net::awaitable<void> {
        const std::error_code code = co_await outcome_of(pool.run([] {}));
        if (code == deadlock) ++found;
      };
      co_await p.run(waits);
    };
    co_await pool.run(submits);
    CHECK(found == 6);
  });
  run.time.run();
  CHECK(found == 6);
}

TEST_CASE("however a call ends that waits inside its policy, nothing of it is left", "[policy]") {
  enum class how { cancelled, too_late, stopped, thrown, context_gone };
  const how way = GENERATE(how::cancelled, how::too_late, how::stopped, how::thrown, how::context_gone);
  CAPTURE(static_cast<int>(way));
  auto run = std::make_unique<limits_run>();
  policy p{run->io, capped(2)};
  net::cancellation_signal signal;
  std::error_code ended;
  const auto stranger = [&]() -> net::awaitable<void> {
    co_await sleep_for(10ms);  // the other call has the first place then, and waits for this one
    if (way == how::cancelled) signal.emit(net::cancellation_type::terminal);
    if (way == how::stopped) p.stop();
    co_await sleep_for(1h);
  };
  const auto innermost = [] { return answer_after(1ms); };
  const auto outer = [&]() -> net::awaitable<void> {
    using namespace net::experimental::awaitable_operators;
    co_await sleep_for(1ms);
    const request r{.deadline = way == how::too_late ? run->time.now() + 10ms : time_point::max()};
    const auto fails = [&]() -> net::awaitable<void> {
      co_await sleep_for(10ms);
      if (way == how::thrown) throw std::system_error{errc::overloaded};
      co_await sleep_for(1h);
    };
    co_await (p.run(innermost, r) && fails());
  };
  run->go([&]() -> net::awaitable<void> { co_await p.run(outer); }, signal, ended);
  run->go([&]() -> net::awaitable<void> { (void)co_await outcome_of(p.run(stranger)); });
  run->time.run_for(30ms);
  if (way == how::context_gone) {
    run.reset();
    CHECK(p.stats().under_way == 0);
    return;
  }
  CHECK(ended);
  CHECK(p.limits()->stats().waiting == 0);
  CHECK(p.limits()->stats().held == 1);
  run->time.run();
  CHECK(p.stats().under_way == 0);
  CHECK(p.limits()->stats().held == 0);
  if (way == how::stopped) return;
  int depth = 0;
  run->go([&]() -> net::awaitable<void> { depth = co_await dive(p, 2); });  // no wait is counted any more
  run->time.run();
  CHECK(depth == 2);
}

TEST_CASE("a coroutine that an operation left behind may call its policy", "[policy]") {
  limits_run run;
  policy p{run.io, capped(1)};
  int answer = 0;
  const auto inner = [] { return answer_after(1ms); };
  const auto left = [&]() -> net::awaitable<void> {
    co_await sleep_for(10ms);
    answer = co_await p.run(inner);
  };
  const auto leaves = [&]() -> net::awaitable<void> {
    const net::any_io_executor own = co_await net::this_coro::executor;
    net::co_spawn(own, left(), net::detached);
  };
  run.go([&]() -> net::awaitable<void> { co_await p.run(leaves); });
  run.time.run();
  CHECK(answer == 42);
}

TEST_CASE("a coroutine that an operation left behind waits for nobody's place but its own", "[policy]") {
  limits_run run;
  policy p{run.io, capped(2)};
  int answer = 0;
  const auto inner = [] { return answer_after(1ms); };
  const auto left = [&]() -> net::awaitable<void> {
    co_await sleep_for(50ms);
    answer = co_await p.run(inner);
  };
  const auto leaves = [&]() -> net::awaitable<void> {
    const net::any_io_executor own = co_await net::this_coro::executor;
    net::co_spawn(own, left(), net::detached);
  };
  const auto holds = [] { return answer_after(100ms); };
  const auto waits = [&]() -> net::awaitable<void> { (void)co_await p.run(inner); };
  run.go([&]() -> net::awaitable<void> { co_await p.run(leaves); });
  run.time.run_for(10ms);
  run.go([&]() -> net::awaitable<void> { (void)co_await p.run(holds); });
  run.go([&]() -> net::awaitable<void> { co_await p.run(waits); });
  run.time.run_for(10ms);
  // The operations that wait for the policy hold all of its places now.
  p.limits()->set_concurrency(1);
  run.time.run_for(40ms);
  CHECK(p.limits()->stats().waiting == 2);
  p.limits()->set_concurrency(2);
  run.time.run();
  CHECK(answer == 42);
  CHECK(p.stats().refused == 0);
}

TEST_CASE("a wait for a place ends with its operation, also for what is counted", "[policy]") {
  limits_run run;
  policy p{run.io, capped(2)};
  const auto inner = [] { return answer_after(1h); };
  const auto left = [&]() -> net::awaitable<void> { (void)co_await p.run(inner, {.deadline = run.time.now() + 1s}); };
  const auto leaves = [&]() -> net::awaitable<void> {
    const net::any_io_executor own = co_await net::this_coro::executor;
    net::co_spawn(own, left(), net::detached);
    co_await sleep_for(10ms);
  };
  const auto holds = [&]() -> net::awaitable<void> {
    for (int i = 0; i < 5; ++i) co_await sleep_for(100ms);
  };
  run.go([&]() -> net::awaitable<void> {
    // Again and again, while the other place is taken: what is left behind must not add up.
    net::co_spawn(run.io, p.run(holds), net::detached);
    for (int i = 0; i < 4; ++i) co_await p.run(leaves);
    co_await sleep_for(2s);
    const int depth = co_await dive(p, 2);
    CHECK(depth == 2);
  });
  run.time.run();
  CHECK(p.limits()->stats().held == 0);
  CHECK(p.stats().under_way == 0);
}
