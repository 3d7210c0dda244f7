// Rates that promise a closed window: rate_window::strict, in every limit that has it.
#include "canigo/flow.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/strand_pool.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <rapidcheck.h>
#include <string>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace strict_window {

rate_limit strict(const rate& r, std::uint64_t burst, std::string unit = {}) {
  return {.rate = r, .burst = burst, .initial_tokens = burst, .unit = std::move(unit), .window = rate_window::strict};
}

limiter_options sixty_a_minute(std::uint64_t burst = 12) {
  return {.rates = {strict(rate::per_minute(60), burst)}, .priorities = 2};
}

/// Grants with their times and their tokens, as they are used in the end.
struct grant_log {
  struct entry {
    time_point at;
    std::uint64_t tokens;
  };
  std::deque<entry> all;

  entry& add(time_point at, std::uint64_t tokens) { return all.emplace_back(entry{at, tokens}); }
  /// The most in a closed window of that length. One ends at each grant.
  std::uint64_t worst(duration window) const {
    std::uint64_t most = 0;
    for (const entry& last : all) most = std::max(most, in(last.at - window, last.at));
    return most;
  }
  std::uint64_t in(time_point from, time_point to) const {
    std::uint64_t sum = 0;
    for (const entry& e : all) sum += e.at >= from && e.at <= to ? e.tokens : 0;
    return sum;
  }
};

/// Asks again and again, and uses what it got.
template <class Limit>
auto steady(limits_run& run, Limit& l, grant_log& granted, request r, std::size_t times) {
  return [&run, &l, &granted, r, times]() -> net::awaitable<void> {
    for (std::size_t i = 0; i < times; ++i) {
      (void)co_await l.acquire(r);
      granted.add(run.time.now(), r.tokens);
    }
  };
}

}  // namespace strict_window

using namespace strict_window;

TEST_CASE("a strict rate of a limiter passes its quota in no window, and uses it", "[strict]") {
  limits_run run;
  limiter l{run.io, sixty_a_minute()};
  grant_log granted;
  for (int i = 0; i < 5; ++i) run.go(steady(run, l, granted, {.priority = i % 2}, 120));
  run.time.run();
  CHECK(granted.all.size() == 600);
  CHECK(granted.worst(1min) == 60);
  // 590 of 600 would be 98 %.
  CHECK(run.time.elapsed() < 10min + 10s);
}

TEST_CASE("an average rate passes its quota by its burst, which a strict one is for", "[strict]") {
  limits_run run;
  limiter l{run.io, {.rates = {{.rate = rate::per_minute(60), .burst = 12, .initial_tokens = 12}}}};
  grant_log granted;
  run.go(steady(run, l, granted, {}, 100));
  run.time.run();
  CHECK(granted.worst(1min) == 72);
}

TEST_CASE("a request that waits for the window says until when", "[strict]") {
  limits_run run;
  limiter l{run.io, sixty_a_minute(60)};
  const permit all = l.try_acquire({.tokens = 60}).value();
  CHECK_FALSE(l.try_acquire());
  CHECK(l.stats().tokens == std::vector<std::int64_t>{0});
  CHECK(l.estimate({}) == 1min + 1ns);
  CHECK(l.estimate({.tokens = 60}) == 1min + 1ns);
  std::error_code ec;
  run.go([&]() -> net::awaitable<void> {
    (void)co_await l.acquire({.deadline = run.time.now() + 59s}, ec);
    CHECK(ec == errc::deadline_unreachable);
    (void)co_await l.acquire();
    CHECK(run.time.elapsed() == 1min + 1ns);
  });
  run.time.run_for(1s);
  CHECK(l.why_waiting().binds == wait_reason::cause::rate);
  CHECK(l.why_waiting().until == time_point{1min + 1ns});
  run.time.run();
}

TEST_CASE("what a permit settles for less makes room in the window", "[strict]") {
  limits_run run;
  limiter l{run.io, sixty_a_minute(60)};
  permit p = l.try_acquire({.tokens = 60}).value();
  run.time.run_for(10s);
  CHECK_FALSE(l.try_acquire({.tokens = 40}));
  p.settle(20);
  permit q = l.try_acquire({.tokens = 40}).value();
  // The first twenty leave the window after a minute, the forty ten seconds later.
  run.time.run_for(50s);
  CHECK(l.stats().tokens[0] == 0);
  CHECK_FALSE(l.try_acquire());
  run.time.run_for(1ns);
  CHECK(l.stats().tokens[0] == 20);
  run.time.run_for(9s);
  CHECK(l.stats().tokens[0] == 20);
  // It has left, so it gives no room back; but a charge counts.
  p.settle(0);
  CHECK(l.stats().tokens[0] == 20);
  q.settle(60);
  CHECK(l.stats().tokens[0] == 0);
}

TEST_CASE("a permit that was waited for makes room in the window, too", "[strict]") {
  limits_run run;
  limiter l{run.io, sixty_a_minute(30)};
  std::vector<permit> held;
  for (int i = 0; i < 2; ++i) {
    run.go([&]() -> net::awaitable<void> { held.push_back(co_await l.acquire({.tokens = 30})); });
  }
  run.time.run_for(40s);
  REQUIRE(held.size() == 2);
  CHECK(l.stats().tokens[0] == 0);
  held[1].settle(10);
  CHECK(l.stats().tokens[0] == 20);
}

TEST_CASE("a permit of several units makes room in the windows of each", "[strict][units]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {strict(rate::per_minute(10), 10, "calls"), strict(rate::per_minute(1000), 1000, "tokens")}}};
  permit p = l.try_acquire({.amounts = {{"tokens", 900}}}).value();
  run.time.run_for(1s);
  p.settle("tokens", 100);
  CHECK(l.stats().tokens == std::vector<std::int64_t>{9, 900});
  p.settle(0);
  CHECK(l.stats().tokens == std::vector<std::int64_t>{10, 900});
}

TEST_CASE("a grant that is never used makes room in the window", "[strict]") {
  limits_run run;
  limiter l{run.io, sixty_a_minute(60)};
  {
    permit p = l.try_acquire({.tokens = 60}).value();
    auto other = std::make_unique<net::io_context>();
    bool is_told = false;
    l.async_acquire({.tokens = 30},
                    net::bind_executor(other->get_executor(), [&](std::error_code, permit) { is_told = true; }));
    run.time.run_for(1s);
    p.settle(0);
    CHECK(l.stats().tokens[0] == 30);
    other.reset();
    CHECK_FALSE(is_told);
  }
  CHECK(l.stats().tokens[0] == 60);
}

TEST_CASE("a pause empties the window and fills the bucket, and no window holds more after it", "[strict]") {
  limits_run run;
  limiter l{run.io, sixty_a_minute(30)};
  grant_log granted;
  run.go(steady(run, l, granted, {}, 300));
  run.time.run_for(90s);
  l.pause_until(run.time.now() + 40s);
  run.time.run_for(45s);
  l.pause_until(run.time.now() + 3min);
  run.time.run();
  CHECK(granted.all.size() == 300);
  CHECK(granted.worst(1min) == 60);
}

TEST_CASE("a level that is told from outside lowers what a strict rate gives", "[strict]") {
  limits_run run;
  limiter l{run.io, sixty_a_minute(30)};
  l.lower_tokens(0, 4);
  CHECK(l.stats().tokens[0] == 4);
  CHECK(l.try_acquire({.tokens = 4}));
  CHECK_FALSE(l.try_acquire());
  l.lower_tokens(0, 50);
  CHECK(l.stats().tokens[0] == 0);
  run.time.run_for(5s);
  CHECK(l.stats().tokens[0] == 5);
}

TEST_CASE("a strict scheduler counts in its window what is refunded", "[strict]") {
  limits_run run;
  scheduler s{run.io, {.rate = rate::per_minute(60), .burst = 60, .initial_tokens = 60, .window = rate_window::strict}};
  CHECK(s.try_acquire({.tokens = 40}));
  s.refund(40);
  CHECK(s.stats().tokens == 20);
  s.charge(20);
  CHECK(s.stats().tokens == 0);
  grant_log granted;
  run.go(steady(run, s, granted, {}, 100));
  run.time.run();
  granted.add(time_point{}, 60);
  CHECK(granted.worst(1min) == 60);
}

TEST_CASE("a flow may be strict where its limit is not", "[strict][flow]") {
  limits_run run;
  limiter l{run.io, {.rates = {{.rate = rate::per_second(100), .burst = 60, .initial_tokens = 60}}}};
  flow tenant{l, {.rates = {strict(rate::per_minute(60), 12)}}};
  grant_log granted, others;
  run.go(steady(run, l, granted, {.flow = &tenant}, 200));
  run.go(steady(run, l, others, {}, 200));
  run.time.run();
  CHECK(granted.all.size() == 200);
  CHECK(granted.worst(1min) == 60);
  // The other one is not held up.
  CHECK(others.all.back().at < time_point{5s});
}

TEST_CASE("a strict flow of a strict limit makes room by what is settled", "[strict][flow]") {
  limits_run run;
  limiter l{run.io, sixty_a_minute(60)};
  flow tenant{l, {.rates = {strict(rate::per_minute(30), 30)}}};
  permit p = l.try_acquire({.tokens = 30, .flow = &tenant}).value();
  CHECK_FALSE(l.try_acquire({.flow = &tenant}));
  run.time.run_for(1s);
  p.settle(10);
  CHECK(tenant.stats().available[0] == 20);
  permit q = l.try_acquire({.tokens = 20, .flow = &tenant}).value();
  run.time.run_for(20s);
  CHECK_FALSE(l.try_acquire({.flow = &tenant}));
}

TEST_CASE("tasks of a strict flow of a pool keep its window", "[strict][flow][pool]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 4}};
  flow tenant{pool, {.rates = {strict(rate::per_minute(60), 12)}}};
  grant_log started;
  for (int i = 0; i < 150; ++i) {
    (void)pool.submit([&] { started.add(run.time.now(), 1); }, {.flow = &tenant});
  }
  run.time.run();
  CHECK(started.all.size() == 150);
  CHECK(started.worst(1min) == 60);
}

TEST_CASE("a rate that shrinks ends those that ask for more than its window", "[strict]") {
  limits_run run;
  limiter l{run.io, sixty_a_minute(60)};
  flow tenant{l, {.rates = {strict(rate::per_minute(60), 60)}}};
  const permit all = l.try_acquire({.tokens = 60}).value();
  std::error_code of_limit, of_flow, of_small;
  const auto ask = [&](std::error_code& ec, request r) {
    run.go([&, r]() -> net::awaitable<void> { (void)co_await l.acquire(r, ec); });
  };
  ask(of_limit, {.tokens = 50});
  ask(of_flow, {.tokens = 30, .flow = &tenant});
  ask(of_small, {.tokens = 20, .flow = &tenant});
  run.time.run_for(1s);
  l.set_rate(0, rate::per_minute(40));
  run.time.run_for(1s);
  CHECK(of_limit == errc::too_large);
  CHECK(l.stats().waiting == 2);
  tenant.set_rate(0, rate::per_minute(25));
  run.time.run_for(1s);
  CHECK(of_flow == errc::too_large);
  CHECK(l.stats().waiting == 1);
  run.time.run();
  CHECK_FALSE(of_small);
  CHECK(l.stats().granted == 2);
  // 10/10s is 60/1m, but its window is another one.
  l.set_rate(0, rate{10, 10s});
  CHECK(refusal_of([&] { (void)l.estimate({.tokens = 11}); }).find("request.tokens is 11; allowed: 1 to 10") == 0);
}

TEST_CASE("where everybody goes at once, a strict rate says who would have waited", "[strict][shadow]") {
  limits_run run;
  limiter_options o = sixty_a_minute(60);
  o.mode = enforcement::shadow;
  limiter l{run.io, o};
  for (int i = 0; i < 3; ++i) {
    run.go([&]() -> net::awaitable<void> { permit p = co_await l.acquire({.tokens = 30}); });
  }
  run.time.run();
  CHECK(l.stats().granted == 3);
  CHECK(l.stats().shadow.waited == 1);
}

TEST_CASE("windows and bursts that can't be are named with their range", "[strict]") {
  limits_run run;
  const auto of_limiter = [&](const rate_limit& r) {
    return reason_of([&] { limiter{run.io, {.rates = {rate::per_second(1), r}}}; });
  };
  CHECK(of_limiter(strict(rate{10, 1s}, 11)) ==
        "limiter_options.rates[1].burst is 11; allowed: 1 to 10, the tokens of a strict window");
  CHECK(of_limiter({.rate = {10, 1s}, .window = static_cast<rate_window>(7)}) ==
        "limiter_options.rates[1].window is 7; allowed: average, strict");
  CHECK(of_limiter(strict(rate{10, 1s}, 10)).empty());
  CHECK(reason_of([&] { scheduler{run.io, {.rate = {3, 1s}, .burst = 4, .window = rate_window::strict}}; }) ==
        "scheduler_options.burst is 4; allowed: 1 to 3, the tokens of a strict window");
  limiter l{run.io, {.rates = {{rate::per_second(100), 100}}}};
  CHECK(reason_of([&] { flow{l, {.rates = {strict(rate{10, 1s}, 11)}}}; }) ==
        "flow_options.rates[0].burst is 11; allowed: 1 to 10, the tokens of a strict window");
}

TEST_CASE("property: whatever is asked, settled and paused, no window of a limiter holds more", "[strict]") {
  CHECK(rc::check("windows of a limiter and a flow", [] {
    limits_run run;
    const auto most = *rc::gen::inRange<std::int64_t>(1, 200);
    const duration period{*rc::gen::element<std::int64_t>(1'000, 1'000'000'000, 60'000'000'000)};
    const rate own{most, period};
    const auto burst = *rc::gen::inRange<std::uint64_t>(1, static_cast<std::uint64_t>(most) + 1);
    const auto of_flow = *rc::gen::inRange<std::int64_t>(1, most + 1);
    limiter l{run.io, {.rates = {{.rate = rate{most, period}, .burst = burst, .window = rate_window::strict}}}};
    const auto burst_of_flow = std::min(burst, static_cast<std::uint64_t>(of_flow));
    flow tenant{l, {.rates = {strict(rate{of_flow, period}, burst_of_flow)}}};
    grant_log all, tenants;
    struct held {
      permit p;
      std::vector<grant_log::entry*> entries;
    };
    std::deque<held> out;
    const auto note = [&](permit p, const request& r) {
      held h{std::move(p), {&all.add(run.time.now(), r.tokens)}};
      if (r.flow != nullptr) h.entries.push_back(&tenants.add(run.time.now(), r.tokens));
      out.push_back(std::move(h));
      RC_ASSERT(all.in(run.time.now() - period, run.time.now()) <= static_cast<std::uint64_t>(most));
      RC_ASSERT(tenants.in(run.time.now() - period, run.time.now()) <= static_cast<std::uint64_t>(of_flow));
    };
    const auto steps = *rc::gen::inRange<int>(1, 80);
    for (int i = 0; i < steps; ++i) {
      run.time.run_for(period * *rc::gen::inRange<std::int64_t>(0, 20) / 16 / *rc::gen::inRange<std::int64_t>(1, 9));
      request r{.tokens = *rc::gen::inRange<std::uint64_t>(1, burst_of_flow + 1)};
      if (*rc::gen::arbitrary<bool>()) r.flow = &tenant;
      switch (*rc::gen::weightedElement<int>({{4, 0}, {6, 1}, {4, 2}, {1, 3}})) {
        case 0:
          if (auto p = l.try_acquire(r)) note(std::move(*p), r);
          break;
        case 1:
          run.go([&, r]() -> net::awaitable<void> { note(co_await l.acquire(r), r); });
          break;
        case 2: {
          if (out.empty()) break;
          held h = std::move(out.front());
          out.pop_front();
          const std::uint64_t used = *rc::gen::inRange<std::uint64_t>(0, h.entries.front()->tokens + 1);
          for (grant_log::entry* e : h.entries) e->tokens = used;
          h.p.settle(used);
          break;
        }
        default:
          l.pause_until(run.time.now() + period * *rc::gen::inRange<std::int64_t>(0, 5) / 2);
          break;
      }
    }
    run.time.run();
    RC_ASSERT(l.stats().waiting == 0u);
  }));
}

namespace strict_window {

/// Tenants of a limiter with two units, all of whose rates are strict. They ask, are cancelled, time out, settle, are
/// paused, and leave.
class crowd {
 public:
  void act() {
    run.time.run_for(any_step());
    switch (*rc::gen::weightedElement<int>({{10, 0}, {3, 1}, {2, 2}, {4, 3}, {4, 4}, {1, 5}, {1, 6}})) {
      case 0:
        return wait();
      case 1:
        return try_at_once();
      case 2:
        if (caller* c = any_of([](const caller& x) { return x.ends == 0; }))
          c->signal.emit(net::cancellation_type::all);
        return;
      case 3:
        if (caller* c = any_of([](const caller& x) { return static_cast<bool>(x.held); })) settle(*c);
        return;
      case 4:
        if (caller* c = any_of([](const caller& x) { return static_cast<bool>(x.held); })) c->held.release();
        return;
      case 5:
        return api->pause_until(run.time.now() + any_step());
      default:
        return tenants[*rc::gen::inRange<std::size_t>(0, tenants.size())]->pause_until(run.time.now() + any_step());
    }
  }

  void end() {
    for (int i = 0; i < 1000 && api->stats().waiting > 0; ++i) {
      for (caller& c : callers) c.held.release();
      run.time.run_for(period);
    }
    run.time.poll();
    for (const caller& c : callers) RC_ASSERT(c.ends == 1);
  }

 private:
  struct caller {
    request wanted;
    std::array<std::uint64_t, 2> amounts{};
    std::size_t tenant = 0;
    net::cancellation_signal signal;
    int ends = 0;
    permit held;
    std::vector<grant_log::entry*> entries[2];
  };

  duration any_step() const {
    return period * *rc::gen::inRange<std::int64_t>(0, 20) / 16 / *rc::gen::element<std::int64_t>(1, 2, 5, 40);
  }

  template <class Predicate>
  caller* any_of(Predicate is_such) {
    std::vector<caller*> found;
    for (caller& c : callers) {
      if (is_such(c)) found.push_back(&c);
    }
    return found.empty() ? nullptr : found[*rc::gen::inRange<std::size_t>(0, found.size())];
  }

  caller& make_caller() {
    caller& c = callers.emplace_back();
    c.tenant = *rc::gen::inRange<std::size_t>(0, tenants.size());
    c.amounts = {*rc::gen::inRange<std::uint64_t>(1, 4), *rc::gen::inRange<std::uint64_t>(0, 9)};
    c.wanted.priority = *rc::gen::inRange(0, 3);
    c.wanted.tokens = c.amounts[0];
    c.wanted.flow = tenants[c.tenant].get();
    c.wanted.amounts.add(1, c.amounts[1]);
    if (*rc::gen::arbitrary<bool>()) c.wanted.deadline = run.time.now() + any_step();
    return c;
  }

  void wait() {
    caller& c = make_caller();
    api->async_acquire(c.wanted, net::bind_cancellation_slot(c.signal.slot(), [this, &c](std::error_code e, permit p) {
                         ++c.ends;
                         if (!e) take(c, std::move(p));
                       }));
  }

  void try_at_once() {
    caller& c = make_caller();
    c.ends = 1;
    if (auto p = api->try_acquire(c.wanted)) take(c, std::move(*p));
  }

  void take(caller& c, permit p) {
    c.held = std::move(p);
    const time_point now = run.time.now();
    for (std::size_t unit = 0; unit < 2; ++unit) {
      c.entries[unit] = {&all[unit].add(now, c.amounts[unit]), &of_tenant[c.tenant][unit].add(now, c.amounts[unit])};
      RC_ASSERT(all[unit].in(now - period, now) <= quota[unit]);
      RC_ASSERT(of_tenant[c.tenant][unit].in(now - period, now) <= quota_of_tenant[c.tenant][unit]);
    }
  }

  void settle(caller& c) {
    const auto unit = *rc::gen::inRange<std::size_t>(0, 2);
    const std::uint64_t used = *rc::gen::inRange<std::uint64_t>(0, c.amounts[unit] + 1);
    c.held.settle(unit, used);
    for (grant_log::entry* e : c.entries[unit]) e->tokens = std::min(e->tokens, used);
    c.amounts[unit] = std::min(c.amounts[unit], used);
  }

  using by_unit = std::array<std::uint64_t, 2>;
  static rate_limit any_rate(std::uint64_t most, std::uint64_t least_burst, std::uint64_t deepest, duration period,
                             std::string unit) {
    const auto burst = *rc::gen::inRange<std::uint64_t>(least_burst, std::min(most, deepest) + 1);
    return strict(rate{most, period}, burst, std::move(unit));
  }

  limits_run run;
  duration period = *rc::gen::element<duration>(1us, 1s, 1min);
  by_unit quota = {*rc::gen::inRange<std::uint64_t>(3, 40), *rc::gen::inRange<std::uint64_t>(8, 200)};
  std::array<by_unit, 2> quota_of_tenant{};
  std::optional<limiter> api;
  std::vector<std::unique_ptr<flow>> tenants;
  std::array<grant_log, 2> all;
  std::array<std::array<grant_log, 2>, 2> of_tenant;
  std::deque<caller> callers;

 public:
  crowd() {
    const std::vector<rate_limit> rates = {any_rate(quota[0], 3, quota[0], period, "calls"),
                                           any_rate(quota[1], 8, quota[1], period, "tokens")};
    limiter_options o{.rates = rates, .priorities = 3};
    o.concurrency = *rc::gen::element<std::uint64_t>(2, 10, unlimited);
    o.queue_limit = *rc::gen::element<std::size_t>(2, 1000);
    o.on_overflow = *rc::gen::element(overflow::reject_new, overflow::evict_oldest, overflow::evict_least_important);
    o.ageing = *rc::gen::element(duration::max(), period, period / 3);
    if (*rc::gen::arbitrary<bool>()) o.shedding = {.target = period / 2, .interval = period};
    api.emplace(run.io, o);
    for (by_unit& own : quota_of_tenant) {
      own = {*rc::gen::inRange<std::uint64_t>(3, quota[0] + 1), *rc::gen::inRange<std::uint64_t>(8, quota[1] + 1)};
      flow_options f{.weight = *rc::gen::inRange<std::uint32_t>(1, 5),
                     .rates = {any_rate(own[0], 3, rates[0].burst, period, "calls"),
                               any_rate(own[1], 8, rates[1].burst, period, "tokens")}};
      tenants.push_back(std::make_unique<flow>(*api, f));
    }
  }
};

}  // namespace strict_window

TEST_CASE("property: in a crowd of tenants no window holds more, and every call ends once", "[strict][flow][units]") {
  CHECK(rc::check("windows of two units, of a limiter and of its tenants", [] {
    crowd c;
    const int steps = *rc::gen::inRange(1, 120);
    for (int i = 0; i < steps; ++i) c.act();
    c.end();
  }));
}
