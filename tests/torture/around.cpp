// What stands around an operation: retry, hedge, keyed limits, policy, loop_lag; and limits with units, shedding,
// slack and shadow mode.

#include "canigo/algorithms/latency_window.hpp"
#include "canigo/hedge.hpp"
#include "canigo/keyed.hpp"
#include "canigo/limiter.hpp"
#include "canigo/loop_lag.hpp"
#include "canigo/policy.hpp"
#include "canigo/retry.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/task_group.hpp"
#include "canigo/timeout.hpp"
#include "canigo/with_limit.hpp"

#include "stage.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace torture {

using namespace canigo;
using namespace std::chrono_literals;

namespace {

net::awaitable<int> a_call(int fails_until, std::uint32_t number, duration takes) {
  co_await sleep_for(takes);
  if (static_cast<int>(number) < fails_until) throw thrown{};
  co_return static_cast<int>(number);
}

void operations_are_tried_again(stage& t) {
  semaphore m{t.io(), {.permits = 2}};
  t.can_stop([&m](stop_mode) { m.stop(); });
  retry_budget budget{{.percent = 50, .reserve = 4}};
  const backoff pause{.first = 1ms, .cap = 3ms};
  for (int i = 0; i < 5; ++i) {
    t.spawn([&, i]() -> net::awaitable<void> {
      co_await retry([&m, i](std::uint32_t n) { return with_limit(a_call(i, n, 1ms), m); },
                     {.attempts = 3, .backoff = pause, .budget = &budget},
                     i == 4 ? time_point{6ms} : time_point::max());
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { m.pause_until(t.now() + 2ms); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect(m.stats().held == 0, "a permit is lost");
}

void copies_race(stage& t) {
  t.spare_memory();
  semaphore m{t.io(), {.permits = 4}};
  t.can_stop([&m](stop_mode) { m.stop(); });
  retry_budget budget{hedge_budget};
  latency_window window{{.length = 1s, .least_samples = 1}};
  window.record(t.now(), 1ms);
  for (int i = 0; i < 4; ++i) {
    t.spawn([&, i]() -> net::awaitable<void> {
      const auto make = [&m, i](std::uint32_t n) { return with_limit(a_call(i, n, (4 - n) * 1ms), m); };
      if (i % 2 == 0) {
        co_await hedge(make, {.after = 1ms, .copies = 2, .budget = &budget});
      } else {
        co_await hedge(make, {.after = quantile{0.5}, .copies = 1, .budget = &budget, .window = &window});
      }
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect(m.stats().held == 0, "a permit is lost");
}

void copies_that_lost_go_to_a_group(stage& t) {
  t.spare_memory();
  retry_budget budget{hedge_budget};
  task_group group{t.io()};
  for (int i = 0; i < 3; ++i) {
    t.spawn([&, i]() -> net::awaitable<void> {
      co_await hedge([i](std::uint32_t n) { return a_call(i, n, n == 1 ? 5ms : 1ms); },
                     {.after = 1ms, .copies = 1, .budget = &budget, .group = &group});
    });
  }
  t.spawn([&]() -> net::awaitable<void> {
    co_await sleep_for(3ms);
    co_await group.wait_all();
  });
  t.play([&] { t.pass(3ms); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect(group.running() == 0, "a copy has not left its group");
}

void keys_have_a_rate_each(stage& t) {
  keyed_scheduler<std::string> k{
      t.io(), {.rate = rate::per_second(500), .burst = 2, .most_keys = 2, .most_waiting = 5, .priorities = 2}};
  t.can_stop([&k](stop_mode) { k.stop(); });
  for (int i = 0; i < 7; ++i) {
    t.spawn([&k, i]() -> net::awaitable<void> {
      std::string key = "a key with a text too long to lie in the string " + std::to_string(i % 3);
      const time_point until = i == 6 ? time_point{3ms} : time_point::max();
      co_await k.acquire(key, {.priority = i % 2});
      co_await k.acquire(std::move(key), {.priority = i % 2, .deadline = until});
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { (void)k.try_acquire("another key that is not known, with a long text"); },
         [&] { t.pass(1h); });
  t.expect_all_ended();
  t.expect(k.stats().waiting == 0 && k.stats().keys_with_waiters == 0, "an engine is left behind");
}

void keys_share_one_limit(stage& t) {
  std::optional<keyed_semaphore<int>> k{
      std::in_place, t.io(),
      keyed_semaphore_options{.permits = 1, .most_keys = 1, .on_new_key = overflow_of_keys::share_one}};
  t.can_stop([&k](stop_mode) {
    if (k) k->stop();
  });
  for (int i = 0; i < 6; ++i) {
    t.spawn([&k, i]() -> net::awaitable<void> {
      if (!k) co_return;
      const keyed_permit<int> p = co_await k->acquire(i % 3);
      co_await sleep_for(1ms);
    });
  }
  t.play([&] { t.pass(4ms); }, [&] { t.expect(k->stats().keys <= 1, "too many keys"); }, [&] { k.reset(); },
         [&] { t.pass(1s); });
  t.expect_all_ended();
}

void units_are_settled(stage& t) {
  limiter l{t.io(),
            {.rates = {{rate::per_second(1000), 4, 4, "requests"}, {rate::per_second(10'000), 100, 100, "tokens"}},
             .concurrency = 2,
             .priorities = 2}};
  t.can_stop([&l](stop_mode) { l.stop(); });
  for (int i = 0; i < 6; ++i) {
    t.spawn([&l, i]() -> net::awaitable<void> {
      permit p = co_await l.acquire({.priority = i % 2, .amounts = {{"tokens", 40u + static_cast<unsigned>(i)}}});
      co_await sleep_for(1ms);
      if (i % 3 != 0) p.settle("tokens", i % 3 == 1 ? 10 : 90);
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { l.async_acquire({.amounts = {{"tokens", 100}}}, t.handler()); },
         [&] { l.async_acquire({.deadline = t.now() + 2ms, .amounts = {{"tokens", 7}}}, t.handler()); },
         [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(l.stats());
  t.expect(l.stats().held == 0, "a place is lost");
  t.pass(1h);
  t.expect(l.stats().tokens == std::vector<std::int64_t>{4, 100}, "tokens are lost");
}

void an_overload_is_shed(stage& t) {
  semaphore m{t.io(),
              {.permits = 1, .priorities = 2, .shedding = {.target = 1ms, .interval = 3ms, .newest_first = true}}};
  t.can_stop([&m](stop_mode) { m.stop(); });
  for (int i = 0; i < 8; ++i) {
    t.spawn([&m, i]() -> net::awaitable<void> {
      const permit p = co_await m.acquire({.priority = i % 2});
      co_await sleep_for(2ms);
    });
  }
  t.play([&] { t.pass(3ms); }, [&] { m.async_acquire({.priority = 1}, t.handler()); }, [&] { t.pass(5ms); },
         [&] { m.async_acquire({}, t.handler()); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(m.stats());
  t.expect(m.stats().held == 0, "a permit is lost");
}

void a_limit_is_in_shadow_mode(stage& t) {
  limiter l{
      t.io(),
      {.rates = {{rate::per_second(500), 2, 2}}, .concurrency = 2, .queue_limit = 3, .mode = enforcement::shadow}};
  t.can_stop([&l](stop_mode) { l.stop(); });
  for (int i = 0; i < 6; ++i) {
    t.spawn([&l, i]() -> net::awaitable<void> {
      const permit p = co_await l.acquire({.deadline = time_point{(2 + i) * 1ms}});
      co_await sleep_for(2ms);
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { l.async_acquire({}, t.handler()); }, [&] { l.set_mode(enforcement::enforce); },
         [&] { l.async_acquire({}, t.handler()); }, [&] { t.pass(2ms); }, [&] { l.set_mode(enforcement::shadow); },
         [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect(l.stats().held == 0, "a place is lost");
}

void wakeups_have_slack(stage& t) {
  scheduler s{t.io(), {.rate = rate::per_second(1000), .burst = 4, .priorities = 2, .slack = 3ms}};
  t.can_stop([&s](stop_mode) { s.stop(); });
  for (int i = 0; i < 6; ++i) {
    t.spawn([&s, i]() -> net::awaitable<void> {
      co_await s.acquire({.priority = i % 2, .tokens = i == 3 ? 3u : 1u, .deadline = time_point{(4 + i) * 1ms}});
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { s.async_acquire({}, t.handler()); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_full(s, 4);
}

void calls_under_a_policy(stage& t) {
  t.spare_memory();
  const auto p = std::make_shared<policy>(  // it must live until its calls have ended, wherever they are left
      t.io(), policy_options{.timeout = 20ms,
                             .breaker = circuit_breaker_options{.least_calls = 3, .window = 1s, .open_for = 3ms},
                             .hedge = hedge_options{.after = 2ms},
                             .retry = retry_policy{.attempts = 2, .backoff = {.first = 1ms, .cap = 1ms}},
                             .adaptive = adaptive_limit_options{.initial = 2, .most = 3},
                             .limits = limiter_options{.rates = {{rate::per_second(1000), 3}}, .concurrency = 2},
                             .attempt_timeout = 4ms});
  t.can_stop([p](stop_mode) { p->stop(); });
  for (int i = 0; i < 4; ++i) {
    t.spawn([p, i]() -> net::awaitable<void> {
      co_await p->run([i](std::uint32_t n) { return a_call(i % 3 + 1, n, i == 3 ? 10ms : 1ms); });
    });
  }
  t.play([&] { t.pass(3ms); }, [&] { p->breaker()->force_open(); }, [&] { t.pass(2ms); },
         [&] { p->breaker()->reset(); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect(p->stats().under_way == 0, "a call has not ended");
  t.expect(p->limits()->stats().held == 0 && p->adaptive()->stats().held == 0, "a place is lost");
}

void the_lag_of_a_loop(stage& t) {
  int changes = 0;
  std::optional<loop_lag> lag{
      std::in_place, t.io(),
      loop_lag_options{.interval = 2ms, .threshold = 1ms, .on_change = [&changes](bool, duration) { ++changes; }}};
  t.can_stop([&lag](stop_mode) {
    if (lag) lag->stop();
  });
  t.spawn([]() -> net::awaitable<void> { co_await sleep_for(3ms); });
  t.play([&] { t.pass(5ms); }, [&] { lag.reset(); }, [&] { t.pass(10ms); });
  t.expect_all_ended();
  t.expect(changes % 2 == 0, "an overload that has not ended");
}

}  // namespace

std::vector<scenario> scenarios_of_what_is_around() {
  return {
      {"operations are tried again", operations_are_tried_again},
      {"copies race", copies_race},
      {"copies that lost go to a group", copies_that_lost_go_to_a_group},
      {"keys have a rate each", keys_have_a_rate_each},
      {"keys share one limit", keys_share_one_limit},
      {"units are settled", units_are_settled},
      {"an overload is shed", an_overload_is_shed},
      {"a limit is in shadow mode", a_limit_is_in_shadow_mode},
      {"wake-ups have slack", wakeups_have_slack},
      {"calls under a policy", calls_under_a_policy},
      {"the lag of a loop", the_lag_of_a_loop},
  };
}

}  // namespace torture
