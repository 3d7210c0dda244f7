#include "canigo/adaptive_limit.hpp"

#include "canigo/concepts.hpp"
#include "canigo/detail/base/random.hpp"
#include "canigo/error.hpp"
#include "canigo/flow.hpp"
#include "canigo/policy.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/timeout.hpp"
#include "canigo/with_limit.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"
#include "support/refusal.hpp"
#include "support/sanitized.hpp"

#include <asio/detached.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

static_assert(limit<adaptive_limit>);
static_assert(!concurrency_limit<adaptive_limit>);
static_assert(permit_like<adaptive_permit>);

namespace adaptive_limit_tests {

/// A callee that serves `capacity` calls at a time, each in 20 ms; the others wait there.
class callee {
 public:
  callee(limits_run& run, std::uint64_t capacity) : places_{run.io, {.permits = capacity}} {}
  void resize(std::uint64_t capacity) { places_.resize(capacity); }

  net::awaitable<void> call() {
    const permit p = co_await places_.acquire();
    co_await sleep_for(20ms);
  }

 private:
  semaphore places_;
};

/// Callers that come at a steady rate, wait for up to 100 ms, and count.
struct crowd {
  net::awaitable<void> come(int n, duration gap, int priority = 0) {
    for (int i = 0; i < n; ++i) {
      run.go([this, priority]() -> net::awaitable<void> {
        const request r{.priority = priority, .deadline = run.time.now() + 100ms};
        const std::error_code e = co_await outcome_of(with_limit(upstream.call(), limit, r));
        e ? ++lost : ++served;
      });
      co_await sleep_for(gap);
    }
  }

  limits_run& run;
  adaptive_limit& limit;
  callee& upstream;
  int served = 0, lost = 0;
};

template <class Options>
std::string refused(const Options& o) {
  net::io_context io;
  const std::string text = refusal([&] { adaptive_limit{io, o}; });
  return text.substr(0, text.rfind(": invalid argument"));
}

TEST_CASE("an adaptive limit finds the capacity of its callee, and finds it again", "[adaptive]") {
  limits_run run;
  callee upstream{run, 50};
  adaptive_limit limit{run.io, {}};
  crowd all{run, limit, upstream};
  run.go([&] { return all.come(100'000, 300us); });  // 3333 a second, of which 2500 can be served
  run.time.run_for(10s);
  CHECK(limit.limit() >= 40);
  CHECK(limit.limit() <= 90);
  const auto s = limit.stats();
  CHECK(s.limit == limit.limit());
  CHECK(s.held <= s.limit);
  CHECK(s.baseline > 18ms);
  CHECK(s.baseline < 28ms);
  CHECK(s.latency < 60ms);
  CHECK(s.last_decision.why != limit_reason::none);
  CHECK(s.succeeded > 20'000);
  CHECK(s.dropped + s.unreported == 0);
  upstream.resize(10);
  run.time.run_for(10s);
  CHECK(limit.limit() >= 6);
  CHECK(limit.limit() <= 20);
  upstream.resize(50);
  run.time.run();
  CHECK(all.served > 40'000);
  CHECK(limit.stats().held == 0);
}

/// A callee that can do any number of calls at a time, each in 8 to 12 ms. A share of them gets no answer for a while.
struct lossy {
  /// What percent of the calls of each second ended well, in the second that was worst from `since` to the end.
  template <class Call>
  int worst_second(Call call, int rate, int since, int seconds) {
    std::vector<int> all(static_cast<std::size_t>(seconds)), ok(all);
    run.go([&]() -> net::awaitable<void> {
      for (int i = 0; i < rate * seconds; ++i) {
        const auto s = static_cast<std::size_t>(run.time.elapsed() / 1s);
        run.go([&, s]() -> net::awaitable<void> {
          ++all[s];
          const std::error_code e = co_await outcome_of(call());
          if (!e) ++ok[s];
        });
        co_await sleep_for(duration{1s} / rate);
      }
    });
    run.time.run_for(seconds * 1s + 2s);
    int worst = 100;
    for (auto s = static_cast<std::size_t>(since); s < all.size(); ++s) worst = std::min(worst, 100 * ok[s] / all[s]);
    return worst;
  }

  net::awaitable<void> answer() {
    const duration now = run.time.elapsed();
    const bool is_lost = now >= from && now < to && detail::next_random(random) % 100 < percent;
    const duration usual = 8ms + 1ms * static_cast<int>(detail::next_random(random) % 5);
    return sleep_for(is_lost ? duration{1h} : usual);
  }

  limits_run& run;
  std::uint64_t percent;
  duration from = 0s, to = duration::max();
  std::uint64_t random = 1;
};

TEST_CASE("calls that are lost for three seconds cost no more than the ten seconds after", "[adaptive]") {
  for (const std::uint64_t percent : {std::uint64_t{10}, std::uint64_t{100}}) {
    if (is_sanitized && percent == 100) continue;
    INFO(percent << " % lost");
    {
      limits_run run;
      lossy upstream{run, percent, 5s, 8s};
      policy all{run.io, {.timeout = 1s, .adaptive = adaptive_limit_options{}, .attempt_timeout = 300ms}};
      CHECK(upstream.worst_second([&] { return all.run([&] { return upstream.answer(); }); }, 1000, 18, 22) >= 90);
    }
    limits_run run;
    lossy upstream{run, percent, 5s, 8s};
    adaptive_limit limit{run.io, {}};
    const auto call = [&] { return with_timeout(with_limit(with_timeout(upstream.answer(), 300ms), limit), 1s); };
    CHECK(upstream.worst_second(call, 1000, 18, 22) >= 90);
  }
}

TEST_CASE("calls that are lost whatever the load is don't make an adaptive limit small", "[adaptive]") {
  for (const auto& [rate, percent, least] : {std::tuple{300, 10, 70}, std::tuple{1000, 4, 80}}) {
    INFO(rate << " a second, " << percent << " % lost");
    limits_run run;
    lossy upstream{run, static_cast<std::uint64_t>(percent)};
    policy all{run.io, {.timeout = 1s, .adaptive = adaptive_limit_options{}, .attempt_timeout = 300ms}};
    CHECK(upstream.worst_second([&] { return all.run([&] { return upstream.answer(); }); }, rate, 5, 20) >= least);
    CHECK(all.adaptive()->limit() >= 10);
  }
}

TEST_CASE("a policy starts no operation that has hardly any time left", "[adaptive]") {
  limits_run run;
  policy p{run.io, {.timeout = 1s, .adaptive = adaptive_limit_options{.initial = 1, .most = 1}}};
  int started = 0, ok = 0;
  const auto call = [&]() -> net::awaitable<void> {
    const std::error_code e = co_await outcome_of(p.run([&] {
      ++started;
      return answer_after(50ms);
    }));
    if (!e) ++ok;
  };
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 100; ++i) co_await call();
    CHECK(p.adaptive()->latency() > 40ms);
    // Five times what it can do: the queue before the limit is as long as the timeout.
    for (int i = 0; i < 1000; ++i) {
      run.go(call);
      co_await sleep_for(10ms);
    }
  });
  run.time.run();
  CHECK(started >= 290);
  CHECK(ok >= started - 2);
  CHECK(p.stats().refused == 0);  // each of the others has timed out
}

TEST_CASE("an adaptive limit sheds those that have waited too long, where it is told to", "[adaptive]") {
  limits_run run;
  adaptive_limit limit{run.io, {.initial = 1, .most = 1, .shedding = {.target = 5ms, .interval = 100ms}}};
  auto held = limit.try_acquire();
  std::vector<std::error_code> ends(3);
  for (std::error_code& e : ends) {
    run.go([&]() -> net::awaitable<void> {
      auto p = co_await limit.acquire(request{}, e);
      if (p) p.succeeded();
    });
  }
  run.time.run_for(1s);
  CHECK(std::ranges::count(ends, make_error_code(errc::shed)) == 2);  // the last one stays
  CHECK(limit.stats().shed == 2);
  held->succeeded();
  run.time.run();
  CHECK(std::ranges::count(ends, std::error_code{}) == 1);
}

TEST_CASE("priorities hold while an adaptive limit shrinks, and nobody is let in until fewer are out", "[adaptive]") {
  limits_run run;
  adaptive_limit limit{run.io, {.initial = 10, .algorithm = aimd{.target = 10ms}, .priorities = 2}};
  std::vector<adaptive_permit> out;
  for (int i = 0; i < 10; ++i) out.push_back(limit.try_acquire().value());
  // Fifty calls that are too slow: the limit falls to the half.
  for (std::size_t n = 0; limit.limit() == 10; ++n) {
    REQUIRE(n < 60);
    run.time.run_for(20ms);
    out[n % out.size()].succeeded();
    if (limit.limit() == 10) out[n % out.size()] = limit.try_acquire().value();
  }
  std::erase_if(out, [](const adaptive_permit& p) { return !p; });
  CHECK(limit.limit() == 5);
  CHECK(limit.stats().held == 9);
  CHECK(limit.stats().last_decision.why == limit_reason::slow);

  std::vector<int> order;
  for (const int priority : {1, 0, 1, 0}) {
    run.go([&, priority]() -> net::awaitable<void> {
      auto p = co_await limit.acquire(priority);
      order.push_back(priority);
      co_await sleep_for(1s);
    });
  }
  for (; out.size() >= 5; out.pop_back()) {
    run.time.run_for(1ms);
    CHECK(order.empty());
    CHECK_FALSE(limit.try_acquire());
  }
  run.time.run_for(1ms);
  CHECK(order == std::vector<int>{0});
  run.time.run();
  CHECK(order == std::vector<int>{0, 0, 1, 1});
}

TEST_CASE("with_limit tells an adaptive limit how the call ended", "[adaptive]") {
  limits_run run;
  adaptive_limit limit{run.io, {}};
  net::cancellation_signal signal;
  std::error_code ended;
  const auto fails = [](std::error_code code) -> net::awaitable<void> {
    throw std::system_error{code};
    co_return;
  };
  run.go([&]() -> net::awaitable<void> {
    const int n = co_await with_limit(answer_after(1ms), limit);
    CHECK(n == 42);
    CHECK(limit.stats().succeeded == 1);
    ended = co_await outcome_of(with_limit(fails(make_error_code(errc::overloaded)), limit));
    CHECK(ended == errc::overloaded);
    ended = co_await outcome_of(with_limit(with_timeout(sleep_for(1h), 1s), limit));
    CHECK(ended == errc::timed_out);
    CHECK(limit.stats().dropped == 2);
    ended = co_await outcome_of(with_limit(fails(net::error::connection_refused), limit));
    CHECK(ended == net::error::connection_refused);
    CHECK(limit.stats().unreported == 1);
    ended = co_await outcome_of(with_timeout(with_limit(sleep_for(1h), limit), 1s));
    CHECK(ended == errc::timed_out);
    CHECK(limit.stats().given_up == 1);
  });
  run.time.run();
  CHECK(limit.stats().held == 0);
  CHECK(limit.stats().granted == 5);
}

TEST_CASE("an adaptive permit reports once, and may outlive its limit and the context", "[adaptive]") {
  auto run = std::make_unique<limits_run>();
  std::optional<adaptive_limit> limit{std::in_place, run->io, adaptive_limit_options{.initial = 3}};
  adaptive_permit p = limit->try_acquire().value();
  adaptive_permit q{std::move(p)};
  CHECK_FALSE(p);
  CHECK(q.held() == 1);
  p.succeeded();
  q.dropped();
  q.succeeded();
  CHECK(q.held() == 0);
  CHECK(limit->stats().dropped == 1);
  CHECK(limit->stats().succeeded == 0);
  p = limit->try_acquire().value();
  q = limit->try_acquire(0).value();
  q = std::move(p);
  CHECK(limit->stats().unreported == 1);
  CHECK(limit->stats().held == 1);
  auto late = limit->try_acquire();
  limit.reset();
  q.succeeded();
  limit.emplace(run->io, adaptive_limit_options{});
  auto later = limit->try_acquire();
  run.reset();
  later->succeeded();
  late->cancelled();
  CHECK(limit->limit() == 20);
}

TEST_CASE("an adaptive limit is asked, refuses, pauses and stops like any other", "[adaptive]") {
  limits_run run;
  std::optional<adaptive_limit> limit{
      std::in_place, run.io, adaptive_limit_options{.initial = 1, .most = 1, .priorities = 2, .queue_limit = 2}};
  auto held = limit->try_acquire();
  CHECK_FALSE(limit->try_acquire(1));
  std::vector<std::error_code> ends(6);
  const auto ask = [&](std::size_t i, request r) {
    return [&, i, r]() -> net::awaitable<void> {
      const auto p = co_await limit->acquire(r, ends[i]);
      run.note(std::to_string(i));
    };
  };
  run.go(ask(0, {.priority = 1}));
  run.go(ask(1, {.priority = 1, .deadline = run.time.now() + 1s}));
  run.time.poll();
  run.go(ask(2, {}));
  run.go(ask(3, {.priority = 2}));
  run.time.run_for(2s);
  CHECK(ends[1] == errc::timed_out);
  CHECK(ends[2] == errc::queue_full);
  CHECK(ends[3] == errc::invalid_priority);
  limit->pause_until(run.time.now() + 1s);
  held->succeeded();
  run.time.run();
  CHECK(run.log.back() == "0@3000");
  bool called = false;
  limit->async_acquire({}, [&](std::error_code e, adaptive_permit p) {
    called = !e && p;
    p.succeeded();
  });
  run.time.run();
  CHECK(called);
  held = limit->try_acquire();
  run.go(ask(4, {}));
  run.time.poll();
  limit.reset();
  run.time.run();
  CHECK(ends[4] == errc::stopped);
}

TEST_CASE("flows share an adaptive limit, and its permits go back to their flow", "[adaptive]") {
  limits_run run;
  adaptive_limit limit{run.io, {.initial = 2, .most = 2}};
  flow calm{limit, {.weight = 1, .concurrency = 1}};
  flow busy{limit, {.weight = 3}};
  auto first = limit.try_acquire({.flow = &calm});
  CHECK(first);
  CHECK_FALSE(limit.try_acquire({.flow = &calm}));
  auto second = limit.try_acquire({.flow = &busy});
  CHECK(second->held() == 1);
  first->succeeded();
  CHECK(limit.stats().held == 1);
  run.go([&]() -> net::awaitable<void> {
    auto p = co_await limit.acquire({.flow = &calm});
    auto q = std::move(p);
    run.note("calm");
    q.succeeded();
  });
  run.time.run();
  CHECK(run.log == log_lines{"calm@0"});
  second->dropped();
  CHECK(limit.stats().held == 0);
}

TEST_CASE("what an adaptive limit refuses names the field of its options", "[adaptive]") {
  const auto text = [](const adaptive_limit_options& o) { return refused(o); };
  CHECK(text({.least = 0}) == "adaptive_limit_options.least is 0; allowed: 1 or more");
  CHECK(text({.least = 30, .most = 29}) ==
        "adaptive_limit_options.most is 29; allowed: least, which is 30, to 1000000");
  CHECK(text({.most = 1'000'001}) == "adaptive_limit_options.most is 1000001; allowed: least, which is 1, to 1000000");
  CHECK(text({.initial = 2000}) ==
        "adaptive_limit_options.initial is 2000; allowed: least, which is 1, to most, which is 1000");
  CHECK(text({.algorithm = aimd{.target = 0s}}) == "aimd.target is 0s; allowed: more than 0");
  CHECK(text({.priorities = 0}) == "adaptive_limit_options.priorities is 0; allowed: 1 to 1024");
  CHECK(text({.queue_limit = 0}) == "adaptive_limit_options.queue_limit is 0; allowed: 1 or more");
  CHECK(text({.shedding = {.target = -1s}}) == "adaptive_limit_options.shedding.target is -1s; allowed: more than 0");
  CHECK(text({.ageing = 0s}) == "adaptive_limit_options.ageing is 0s; allowed: more than 0");
}

TEST_CASE("threads that use one adaptive limit are never more than there may be", "[adaptive][threads]") {
  net::io_context io;
  adaptive_limit limit{io, {.initial = 2, .most = 3, .algorithm = aimd{.target = 1us}}};
  constexpr int rounds = is_sanitized ? 5'000 : 20'000;
  std::atomic<int> inside{0};
  std::atomic<std::uint64_t> reported{0}, dropped{0};
  std::atomic<bool> too_many{false};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < rounds; ++i) {
          auto p = limit.try_acquire();
          if (!p) continue;
          if (++inside > 3) too_many = true;
          if (i % 1000 == 0) (void)limit.stats();
          --inside;
          if (i % 3 == 0) {
            p->dropped();
            ++dropped;
          } else if (i % 3 == 1) {
            p->succeeded();
            ++reported;
          }
          if (t == 0 && i % 500 == 499) limit.pause_until(time_point::min());
        }
      });
    }
  }
  CHECK_FALSE(too_many);
  const auto s = limit.stats();
  CHECK(s.held == 0);
  CHECK(s.succeeded == reported);
  CHECK(s.dropped == dropped);
}

}  // namespace adaptive_limit_tests
