// Scheduler, semaphore, limiter, adaptive limit, gate, wait_group and circuit breaker.

#include "canigo/adaptive_limit.hpp"
#include "canigo/circuit_breaker.hpp"
#include "canigo/flow.hpp"
#include "canigo/gate.hpp"
#include "canigo/limiter.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/timeout.hpp"
#include "canigo/wait_group.hpp"
#include "canigo/with_limit.hpp"

#include "limits_stage.hpp"

#include <optional>

namespace torture {

using namespace canigo;
using namespace std::chrono_literals;

namespace {

void waiters_are_granted_in_turn(stage& t) {
  scheduler s{t.io(), two_classes};
  stops(t, s);
  for (int i = 0; i < 6; ++i) {
    t.spawn([&s, i]() -> net::awaitable<void> {
      co_await s.acquire({.priority = i % 2, .tokens = i == 3 ? 3u : 1u});
      co_await s.acquire(i % 2);
    });
  }
  t.play([&] { t.pass(2s); });
  t.expect_all_ended();
  t.expect_full(s, 4);
}

void callbacks_meet_every_fate(stage& t) {
  scheduler s{t.io(), {.rate = rate::per_second(100), .burst = 4, .priorities = 2, .queue_limit = 4}};
  stops(t, s);
  const auto ask = [&](request r) { return [&t, &s, r] { s.async_acquire(r, t.handler()); }; };
  t.play(ask({}), ask({.priority = 1}), ask({}), ask({.deadline = t.now() + 100ms}), ask({}) /* queue_full */,
         ask({.deadline = t.now()}), ask({.priority = 7}), ask({.tokens = 5}), [&] { t.pass(200ms); });
  t.expect_all_ended();
  t.expect_full(s, 4);
}

void deadlines_pass(stage& t) {
  scheduler s{t.io(), {.rate = rate::per_second(100), .burst = 8, .initial_tokens = 8, .priorities = 2}};
  stops(t, s);
  s.pause();
  const time_point at = t.now() + 10ms;
  for (int i = 0; i < 4; ++i) t.spawn([&s, at, i] { return s.acquire({.deadline = at + i % 2 * 1ms}); });
  t.play([&] { s.async_acquire({.deadline = at}, t.handler()); }, [&] { t.pass(100ms); });
  s.resume();
  t.expect_all_ended();
  t.expect_full(s, 8);
}

template <overflow Policy>
void a_full_queue(stage& t) {
  scheduler s{t.io(),
              {.rate = rate::per_second(100), .burst = 2, .priorities = 2, .queue_limit = 2, .on_overflow = Policy}};
  stops(t, s);
  for (int i = 0; i < 3; ++i) t.spawn([&s, i] { return s.acquire(1 - i % 2); });
  const auto ask = [&](int priority) {
    return [&, priority] { s.async_acquire({.priority = priority}, t.handler()); };
  };
  t.play([&] { t.pass(1ms); }, ask(0), ask(1), ask(0), [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_full(s, 2);
}

void limits_change(stage& t) {
  scheduler s{t.io(), two_classes};
  stops(t, s);
  for (int i = 0; i < 5; ++i) t.spawn([&s, i] { return s.acquire({.tokens = 1 + static_cast<std::uint64_t>(i % 4)}); });
  t.play([&] { t.pass(2ms); }, [&] { s.set_rate(rate::per_hour(1)); }, [&] { s.refund(2); }, [&] { t.settle(); },
         [&] { s.pause(); }, [&] { s.set_burst(3); }, [&] { s.charge(5); }, [&] { s.set_rate(rate::per_second(1000)); },
         [&] { s.pause_until(t.now() + 5ms); }, [&] { t.pass(100ms); });
  t.expect_all_ended();
  t.expect_full(s, 3);
}

void waiters_rise_with_age(stage& t) {
  scheduler s{t.io(), {.rate = rate::per_second(100), .burst = 2, .priorities = 3, .ageing = 15ms}};
  stops(t, s);
  for (int i = 0; i < 6; ++i)
    t.spawn([&s, i] { return s.acquire({.priority = i % 3, .tokens = 1 + (i == 5 ? 1u : 0u)}); });
  t.play([&] { t.pass(5ms); }, [&] { s.async_acquire({.deadline = t.now() + 1s}, t.handler()); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_full(s, 2);
}

void one_cancels_another(stage& t) {
  scheduler s{t.io(), two_classes};
  stops(t, s);
  std::array<net::cancellation_signal, 3> own;
  for (auto& signal : own) {
    s.async_acquire({.deadline = time_point{1h}}, net::bind_cancellation_slot(signal.slot(), [](std::error_code) {}));
  }
  t.play([&] { t.pass(1ms); }, [&] { s.async_acquire({}, t.handler()); },
         [&] { own[0].emit(net::cancellation_type::terminal); }, [&] { own[2].emit(net::cancellation_type::total); },
         [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_full(s, 4);
}

void stopped_while_some_wait_and_some_are_told(stage& t) {
  scheduler s{t.io(), two_classes};
  stops(t, s);
  for (int i = 0; i < 4; ++i) t.spawn([&s, i] { return s.acquire({.deadline = time_point{1h * (i + 1)}}); });
  t.pass(1ms);
  t.play([&] { s.async_acquire({}, t.handler()); }, [&] { s.refund(2); }, [&] { s.stop(); },
         [&] { s.async_acquire({}, t.handler()); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(s.stats());
}

void destroyed_under_its_waiters(stage& t) {
  std::optional<scheduler> s{std::in_place, t.io(), two_classes};
  t.can_stop([&s](stop_mode) {
    if (s) s->stop();
  });
  for (int i = 0; i < 4; ++i) t.spawn([&s] { return s->acquire({.deadline = time_point{1h}}); });
  t.pass(1ms);
  t.play([&] { s->async_acquire({}, t.handler()); }, [&] { s->refund(2); }, [&] { s.reset(); }, [&] { t.pass(1s); });
  t.expect_all_ended();
}

void destroyed_by_its_own_waiter(stage& t) {
  std::optional<scheduler> s{std::in_place, t.io(), two_classes};
  t.can_stop([&s](stop_mode) {
    if (s) s->stop();
  });
  t.play([&] { s->async_acquire({}, t.handler([&s] { s.reset(); })); }, [&] { s->async_acquire({}, t.handler()); },
         [&] { t.pass(1s); });
  t.expect_all_ended();
}

void two_schedulers_of_one_context(stage& t) {
  scheduler a{t.io(), two_classes};
  scheduler b{t.io(), {.rate = rate::per_second(30)}};
  stops(t, a);
  stops(t, b);
  for (int i = 0; i < 4; ++i) {
    t.spawn([&a, &b]() -> net::awaitable<void> {
      co_await a.acquire();
      co_await b.acquire();
    });
  }
  t.play([&] { t.pass(50ms); }, [&] { a.stop(); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(a.stats());
  t.expect_full(b, 1);
}

void permits_of_a_semaphore(stage& t) {
  semaphore m{t.io(), {.permits = 3, .priorities = 2}};
  stops(t, m);
  for (int i = 0; i < 6; ++i) {
    t.spawn([&m, i]() -> net::awaitable<void> {
      permit p = co_await m.acquire({.priority = i % 2, .tokens = 1 + static_cast<std::uint64_t>(i % 3)});
      co_await sleep_for(2ms);
      permit part = p.split(1);
      p.release();
      co_await sleep_for(1ms);
    });
  }
  t.play([&] { t.pass(3ms); }, [&] { m.async_acquire({.deadline = time_point{8ms}}, t.handler()); },
         [&] { m.resize(2); }, [&] { t.pass(100ms); });
  t.expect_all_ended();
  t.expect_conserved(m.stats());
  t.expect(m.stats().held == 0, "a permit is lost");
}

void a_semaphore_shrinks_and_grows(stage& t) {
  semaphore m{t.io(), {.permits = 4, .queue_limit = 3, .on_overflow = overflow::evict_oldest}};
  stops(t, m);
  for (int i = 0; i < 6; ++i) {
    t.spawn([&m, i]() -> net::awaitable<void> {
      const permit p = co_await m.acquire({.tokens = 1 + static_cast<std::uint64_t>(i % 4)});
      co_await sleep_for(3ms);
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { m.resize(1); }, [&] { t.pass(2ms); }, [&] { m.resize(6); },
         [&] { m.async_acquire({.tokens = 6}, t.handler()); }, [&] { t.pass(100ms); });
  t.expect_all_ended();
  t.expect_conserved(m.stats());
  t.expect(m.stats().held == 0, "a permit is lost");
}

void several_limits_at_once(stage& t) {
  limiter l{t.io(), {.rates = {{rate::per_second(100), 4}, {rate::per_second(50), 8}}, .concurrency = 2}};
  stops(t, l);
  for (int i = 0; i < 5; ++i) {
    t.spawn([&l]() -> net::awaitable<void> {
      permit p = co_await l.acquire({.tokens = 2, .deadline = time_point{10s}});
      p.settle(3);
      co_await sleep_for(3ms);
    });
  }
  t.play([&] { l.async_acquire({}, t.handler()); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(l.stats());
  t.expect(l.stats().held == 0, "a permit is lost");
  t.pass(1h);
  t.expect(l.stats().tokens == std::vector<std::int64_t>{4, 8}, "tokens are lost");
}

void a_limiter_is_paused_and_in_debt(stage& t) {
  limiter l{t.io(), {.rates = {{rate::per_second(100), 3, 3}}, .concurrency = 2, .priorities = 2}};
  stops(t, l);
  for (int i = 0; i < 4; ++i) {
    t.spawn([&l, i]() -> net::awaitable<void> {
      permit p = co_await l.acquire({.priority = i % 2});
      p.settle(10);
      p.settle(1);
    });
  }
  t.play([&] { l.pause_until(t.now() + 3ms); }, [&] { t.pass(2ms); },
         [&] { l.async_acquire({.deadline = t.now() + 20ms}, t.handler()); }, [&] { l.set_concurrency(1); },
         [&] { l.set_rate(0, rate::per_second(500)); }, [&] { l.resume(); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(l.stats());
  t.expect(l.stats().held == 0, "a permit is lost");
}

void a_cap_without_a_rate(stage& t) {
  limiter l{t.io(), {.concurrency = 1, .queue_limit = 2, .on_overflow = overflow::evict_least_important}};
  stops(t, l);
  for (int i = 0; i < 4; ++i) {
    t.spawn([&l]() -> net::awaitable<void> {
      const permit p = co_await l.acquire({.tokens = 100});
      co_await sleep_for(1ms);
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { l.async_acquire({}, t.handler()); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(l.stats());
  t.expect(l.stats().held == 0, "a permit is lost");
}

void limiters_share_a_cap(stage& t) {
  shared_cap cap{{.permits = 2}};
  limiter a{t.io(), {.rates = {{rate::per_second(200), 4}}, .share = cap, .priorities = 2, .ageing = 4ms}};
  limiter b{t.io(), {.concurrency = 2, .share = cap, .queue_limit = 3, .on_overflow = overflow::evict_oldest}};
  stops(t, a);
  stops(t, b);
  for (int i = 0; i < 8; ++i) {
    t.spawn([&a, &b, i]() -> net::awaitable<void> {
      const request r{.priority = i % 4 == 0 ? 1 : 0, .deadline = i < 2 ? time_point{9ms} : time_point::max()};
      permit p = co_await (i % 2 == 0 ? a : b).acquire(r);
      co_await sleep_for(2ms);
      p.settle(2);
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { cap.resize(1); }, [&] { a.async_acquire({}, t.handler()); },
         [&] { b.async_acquire({.deadline = t.now() + 3ms}, t.handler()); }, [&] { t.pass(3ms); },
         [&] { a.pause_until(t.now() + 4ms); }, [&] { cap.resize(3); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(a.stats());
  t.expect_conserved(b.stats());
  t.expect(a.stats().held + b.stats().held == 0 && cap.held() == 0, "a place is lost");
}

void limiters_that_share_a_cap_are_destroyed(stage& t) {
  shared_cap cap{{.permits = 1}};
  std::optional<limiter> a{std::in_place, t.io(), limiter_options{.share = cap}};
  std::optional<limiter> b{std::in_place, t.io(), limiter_options{.share = cap}};
  t.can_stop([&](stop_mode) {
    if (a) a->stop();
    if (b) b->stop();
  });
  permit out = a->try_acquire().value();
  for (int i = 0; i < 4; ++i) {
    t.spawn([&, i]() -> net::awaitable<void> {
      if (!(i % 2 == 0 ? a : b)) co_return;
      const permit p = co_await (i % 2 == 0 ? a : b)->acquire();
      co_await sleep_for(1ms);
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { a->async_acquire({}, t.handler()); }, [&] { b->async_acquire({}, t.handler()); },
         [&] { out.release(); }, [&] { a.reset(); }, [&] { t.pass(2ms); }, [&] { b.reset(); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  out.release();
  t.expect(cap.held() == 0, "a place is lost");
}

void flows_share_a_limiter(stage& t) {
  limiter l{t.io(), {.rates = {{rate::per_second(500), 6, 6}}, .concurrency = 3, .priorities = 2, .ageing = 5ms}};
  stops(t, l);
  std::optional<flow> a{std::in_place, l, flow_options{.weight = 3, .concurrency = 1}};
  flow b{l, {.rates = {{rate::per_second(200), 4, 2}}, .queue_limit = 3}};
  for (int i = 0; i < 8; ++i) {
    t.spawn([&, i]() -> net::awaitable<void> {
      const flow* of[] = {a ? &*a : nullptr, &b, nullptr};
      permit p = co_await l.acquire({.priority = i % 2, .deadline = time_point{30ms}, .flow = of[i % 3]});
      co_await sleep_for(2ms);
      p.settle(2);
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { l.async_acquire({.flow = &*a}, t.handler()); },
         [&] { l.async_acquire({.deadline = t.now() + 3ms, .flow = &b}, t.handler()); }, [&] { b.set_weight(7); },
         [&] { b.pause_until(t.now() + 2ms); }, [&] { t.pass(3ms); }, [&] { b.pause(); }, [&] { b.resume(); },
         [&] { a.reset(); }, [&] { b.set_concurrency(2); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(l.stats());
  t.expect(l.stats().held == 0 && b.stats().held == 0, "a place is lost");
  t.pass(1h);
  t.expect(l.stats().tokens == std::vector<std::int64_t>{6}, "tokens are lost");
  t.expect(b.stats().available == std::vector<std::int64_t>{4}, "tokens of a flow are lost");
}

void alternatives_serve_one_queue(stage& t) {
  limiter l{t.io(),
            {.rates = {{rate::per_second(800), 6, 6}},
             .alternatives = {{.name = "a", .rates = {{rate::per_second(300), 4, 4}}, .concurrency = 2},
                              {.name = "b", .rates = {{rate::per_second(200), 3, 3}}},
                              {.name = "c", .concurrency = 1, .prefer = 2}},
             .priorities = 2,
             .queue_limit = 7,
             .ageing = 5ms}};
  stops(t, l);
  std::optional<flow> f{std::in_place, l, flow_options{.weight = 3, .rates = {{rate::per_second(400), 4, 4}}}};
  for (int i = 0; i < 9; ++i) {
    t.spawn([&, i]() -> net::awaitable<void> {
      permit p = co_await l.acquire({.priority = i % 2,
                                     .tokens = 1 + static_cast<std::uint64_t>(i % 3),
                                     .deadline = time_point{i % 4 == 0 ? 20ms : 1h},
                                     .flow = f && i % 3 == 0 ? &*f : nullptr,
                                     .alternatives = 1 + static_cast<std::uint64_t>(i % 7)});
      co_await sleep_for(2ms);
      if (i % 2 == 0) p.settle(2);
    });
  }
  alternative_handle a = l.alternative(0), b = l.alternative(1);
  t.play([&] { t.pass(2ms); }, [&] { l.async_acquire({.alternatives = 1}, t.handler()); },
         [&] { a.pause_until(t.now() + 3ms); }, [&] { l.async_acquire({.tokens = 3, .alternatives = 3}, t.handler()); },
         [&] { b.set_burst(0, 2); }, [&] { t.pass(3ms); }, [&] { b.pause(); }, [&] { a.set_concurrency(1); },
         [&] { b.resume(); }, [&] { f.reset(); }, [&] { b.set_burst(0, 3); },
         [&] { l.async_acquire({.deadline = t.now() + 4ms, .alternatives = 6}, t.handler()); },
         [&] { l.alternative(2).close(); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  const limiter_stats s = l.stats();
  t.expect_conserved(s);
  t.expect(s.held == 0, "a place is lost");
  for (const alternative_stats& each : s.alternatives) t.expect(each.held == 0, "a place of an alternative is lost");
  t.pass(1h);
  t.expect(l.stats().tokens == std::vector<std::int64_t>{6}, "tokens are lost");
  t.expect(l.stats().alternatives[0].tokens == std::vector<std::int64_t>{4}, "tokens of an alternative are lost");
}

void sublimits_bind_beside_the_common_limits(stage& t) {
  limiter l{t.io(),
            {.rates = {{rate::per_second(800), 6, 6}},
             .alternatives = {{.name = "a", .rates = {{rate::per_second(300), 4, 4}}, .concurrency = 2},
                              {.name = "b", .concurrency = 2, .prefer = 2}},
             .sublimits = {{.name = "x", .rates = {{rate::per_second(200), 3, 3}}, .concurrency = 2},
                           {.name = "y", .concurrency = 1}},
             .priorities = 2,
             .queue_limit = 7,
             .ageing = 5ms}};
  stops(t, l);
  std::optional<flow> f{std::in_place, l, flow_options{.weight = 3, .rates = {{rate::per_second(400), 4, 4}}}};
  for (int i = 0; i < 9; ++i) {
    t.spawn([&, i]() -> net::awaitable<void> {
      permit p = co_await l.acquire({.priority = i % 2,
                                     .sublimit = i % 3 - 1,
                                     .tokens = 1 + static_cast<std::uint64_t>(i % 3),
                                     .deadline = time_point{i % 4 == 0 ? 20ms : 1h},
                                     .flow = f && i % 3 == 0 ? &*f : nullptr,
                                     .alternatives = 1 + static_cast<std::uint64_t>(i % 3)});
      co_await sleep_for(2ms);
      if (i % 2 == 0) p.settle(2);
    });
  }
  sublimit_handle x = l.sublimit(0), y = l.sublimit(1);
  t.play([&] { t.pass(2ms); }, [&] { l.async_acquire({.sublimit = 0}, t.handler()); },
         [&] { l.async_acquire({.sublimit = 1, .tokens = 3, .alternatives = 3}, t.handler()); },
         [&] { x.set_burst(0, 2); }, [&] { t.pass(3ms); }, [&] { y.set_concurrency(2); }, [&] { x.set_concurrency(1); },
         [&] { l.alternative(0).pause_until(t.now() + 3ms); }, [&] { f.reset(); }, [&] { x.set_burst(0, 3); },
         [&] { l.async_acquire({.sublimit = 0, .deadline = t.now() + 4ms}, t.handler()); },
         [&] { y.set_concurrency(1); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  const limiter_stats s = l.stats();
  t.expect_conserved(s);
  t.expect(s.held == 0, "a place is lost");
  for (const sublimit_stats& each : s.sublimits) t.expect(each.held == 0, "a place of a sublimit is lost");
  for (const alternative_stats& each : s.alternatives) t.expect(each.held == 0, "a place of an alternative is lost");
  t.pass(1h);
  t.expect(l.stats().tokens == std::vector<std::int64_t>{6}, "tokens are lost");
  t.expect(l.stats().sublimits[0].tokens == std::vector<std::int64_t>{3}, "tokens of a sublimit are lost");
}

void flows_outlive_a_semaphore(stage& t) {
  std::optional<semaphore> s{std::in_place, t.io(), semaphore_options{.permits = 2}};
  t.can_stop([&s](stop_mode) {
    if (s) s->stop();
  });
  flow a{*s, {.concurrency = 1}}, b{*s};
  for (int i = 0; i < 5; ++i) {
    t.spawn([&, i]() -> net::awaitable<void> {
      if (!s) co_return;
      const permit p = co_await s->acquire({.flow = i % 2 == 0 ? &a : &b});
      co_await sleep_for(1ms);
    });
  }
  t.play([&] { s->async_acquire({.flow = &b}, t.handler()); }, [&] { t.pass(1ms); }, [&] { s.reset(); },
         [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect(a.stats().held == 0 && b.stats().held == 0, "a place is lost");
}

void a_gate_and_a_group_that_are_waited_for(stage& t) {
  gate g{t.io()};
  wait_group w{t.io()};
  permit inside = g.enter();
  w.add(2);
  t.spawn([&] { return g.close(); });
  t.spawn([&] { return w.wait(); });
  t.play([&] { t.pass(1ms); }, [&] { g.async_close(t.handler()); }, [&] { w.async_wait(t.handler()); },
         [&] { w.done(); }, [&] { inside.release(); }, [&] { w.done(); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect(g.count() == 0 && w.count() == 0, "somebody is inside");
}

void a_gate_goes_while_some_are_inside(stage& t) {
  std::optional<gate> g{std::in_place, t.io()};
  for (int i = 0; i < 3; ++i) {
    t.spawn([&g, i]() -> net::awaitable<void> {
      auto inside = g ? g->try_enter() : std::nullopt;
      co_await sleep_for((i + 1) * 1ms);
      inside.reset();
      if (g) co_await g->close();
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { g->async_close(t.handler()); }, [&] { g.reset(); }, [&] { t.pass(1s); });
  t.expect_all_ended();
}

void an_adaptive_limit_is_told_how_calls_end(stage& t) {
  adaptive_limit l{t.io(), {.initial = 2, .most = 3, .algorithm = aimd{.target = 1ms}, .priorities = 2}};
  stops(t, l);
  for (int i = 0; i < 6; ++i) {
    t.spawn([&l, i]() -> net::awaitable<void> {
      const request r{.priority = i % 2, .deadline = i == 5 ? time_point{4ms} : time_point::max()};
      if (i % 3 == 0) {
        co_await with_limit(sleep_for(2ms), l, r);
      } else {
        auto p = co_await l.acquire(r);
        co_await sleep_for(1ms);
        i % 3 == 1 ? p.succeeded() : p.dropped();
      }
    });
  }
  t.play([&] { l.async_acquire({}, t.handler()); }, [&] { t.pass(2ms); }, [&] { l.pause_until(t.now() + 2ms); },
         [&] { l.async_acquire({.priority = 1}, t.handler([] { throw thrown{}; })); }, [&] { t.pass(100ms); });
  t.expect_all_ended();
  t.expect_conserved(l.stats());
  t.expect(l.stats().held == 0, "a permit is lost");
}

void an_adaptive_limit_is_destroyed_under_its_callers(stage& t) {
  std::optional<adaptive_limit> l{std::in_place, t.io(), adaptive_limit_options{.initial = 2}};
  t.can_stop([&l](stop_mode) {
    if (l) l->stop();
  });
  for (int i = 0; i < 4; ++i) {
    t.spawn([&l]() -> net::awaitable<void> {
      if (!l) co_return;
      auto p = co_await l->acquire(0);
      co_await sleep_for(2ms);
      p.succeeded();
    });
  }
  t.play([&] { t.pass(1ms); }, [&] { l.reset(); }, [&] { t.pass(1s); });
  t.expect_all_ended();
}

void calls_go_through_a_breaker(stage& t) {
  circuit_breaker b{t.io(), {.least_calls = 2, .window = 1s, .open_for = 3ms, .probes = 2}};
  semaphore m{t.io(), {.permits = 2}};
  stops(t, m);
  const auto call = [](int i) -> net::awaitable<void> {
    co_await sleep_for(1ms);
    if (i < 3) throw thrown{};
  };
  for (int i = 0; i < 6; ++i) {
    t.spawn([&, i]() -> net::awaitable<void> {
      co_await sleep_for(i * 2ms);
      co_await with_breaker(with_limit(call(i), m), b);
    });
  }
  t.play([&] { t.pass(5ms); }, [&] { b.force_open(); }, [&] { t.pass(2ms); }, [&] { b.reset(); },
         [&] { t.pass(100ms); });
  t.expect_all_ended();
  t.expect(m.stats().held == 0, "a permit is lost");
  const auto s = b.stats();
  t.expect(s.succeeded + s.failed + s.unreported + s.refused <= 6, "a call has reported twice");
  b.reset();
  t.expect(b.try_enter().has_value(), "a breaker that was reset refuses");
}

void a_breaker_is_destroyed_under_its_calls(stage& t) {
  std::optional<circuit_breaker> b{std::in_place, t.io(), circuit_breaker_options{.open_for = 1ms}};
  for (int i = 0; i < 4; ++i) {
    t.spawn([&, i]() -> net::awaitable<void> {
      if (b) co_await with_breaker(sleep_for((1 + i) * 1ms), *b);
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { b.reset(); }, [&] { t.pass(1s); });
  t.expect_all_ended();
}

}  // namespace

std::vector<scenario> scenarios_of_limits() {
  return {
      {"waiters are granted in turn", waiters_are_granted_in_turn},
      {"callbacks meet every fate", callbacks_meet_every_fate},
      {"deadlines pass", deadlines_pass},
      {"a full queue that rejects", a_full_queue<overflow::reject_new>},
      {"a full queue that evicts the oldest", a_full_queue<overflow::evict_oldest>},
      {"a full queue that evicts the least important", a_full_queue<overflow::evict_least_important>},
      {"limits change", limits_change},
      {"waiters rise with age", waiters_rise_with_age},
      {"one cancels another", one_cancels_another},
      {"stopped while some wait and some are told", stopped_while_some_wait_and_some_are_told},
      {"destroyed under its waiters", destroyed_under_its_waiters},
      {"destroyed by its own waiter", destroyed_by_its_own_waiter},
      {"two schedulers of one context", two_schedulers_of_one_context},
      {"permits of a semaphore", permits_of_a_semaphore},
      {"a semaphore shrinks and grows", a_semaphore_shrinks_and_grows},
      {"several limits at once", several_limits_at_once},
      {"a limiter is paused and in debt", a_limiter_is_paused_and_in_debt},
      {"a cap without a rate", a_cap_without_a_rate},
      {"limiters share a cap", limiters_share_a_cap},
      {"limiters that share a cap are destroyed", limiters_that_share_a_cap_are_destroyed},
      {"flows share a limiter", flows_share_a_limiter},
      {"flows outlive a semaphore", flows_outlive_a_semaphore},
      {"alternatives serve one queue", alternatives_serve_one_queue},
      {"sublimits bind beside the common limits", sublimits_bind_beside_the_common_limits},
      {"a gate and a group that are waited for", a_gate_and_a_group_that_are_waited_for},
      {"a gate goes while some are inside", a_gate_goes_while_some_are_inside},
      {"an adaptive limit is told how calls end", an_adaptive_limit_is_told_how_calls_end},
      {"an adaptive limit is destroyed under its callers", an_adaptive_limit_is_destroyed_under_its_callers},
      {"calls go through a breaker", calls_go_through_a_breaker},
      {"a breaker is destroyed under its calls", a_breaker_is_destroyed_under_its_calls},
  };
}

}  // namespace torture
