// What semaphore, limiter and gate need of the heap: nothing in steady state, and no allocation whose failure loses a
// permit or a caller. A program of its own, as it replaces the heap.

#include "canigo/adaptive_limit.hpp"
#include "canigo/circuit_breaker.hpp"
#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/flow.hpp"
#include "canigo/gate.hpp"
#include "canigo/hedge.hpp"
#include "canigo/keyed.hpp"
#include "canigo/limiter.hpp"
#include "canigo/metered_stream.hpp"
#include "canigo/retry.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/task_group.hpp"

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/bind_executor.hpp>
#include <asio/buffer.hpp>
#include <asio/execution.hpp>
#include <asio/local/connect_pair.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

using namespace allocations;

namespace {

struct at_end {
  int& n;
  ~at_end() { ++n; }
};

}  // namespace

TEST_CASE("a free semaphore allocates nothing", "[memory]") {
  limits_run run;
  semaphore s{run.io, {.permits = 2, .priorities = 3}};
  std::int64_t awaited = -1;
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 300; ++i) const permit p = co_await s.acquire({.priority = i % 3});
    const counted c;
    for (int i = 0; i < 1000; ++i) const permit p = co_await s.acquire({.priority = i % 3});
    awaited = c.so_far();
  });
  run.time.run();
  CHECK(awaited == 0);

  const counted c;
  for (int i = 0; i < 1000; ++i) {
    auto p = s.try_acquire();
    permit q = p->split(1);
  }
  CHECK(c.so_far() == 0);
}

TEST_CASE("a strict rate allocates nothing once it is made", "[memory]") {
  limits_run run;
  limiter l{run.io, {.rates = {{.rate = rate{60, 20ms}, .burst = 20, .window = rate_window::strict}}, .priorities = 2}};
  const auto use = [&] {
    std::uint64_t granted = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      if (auto p = l.try_acquire({.priority = static_cast<int>(i % 2), .tokens = 3})) {
        ++granted;
        p->settle(i % 7);
      }
      run.time.run_for(300us);
    }
    return granted;
  };
  use();
  const counted c;
  CHECK(use() > 100);
  CHECK(c.so_far() == 0);
}

TEST_CASE("a keyed limit allocates nothing for a key that it knows, nor for one in the place of another", "[memory]") {
  limits_run run;
  keyed_scheduler<std::string> s{run.io, {.rate = rate::per_second(1'000), .burst = 10, .most_keys = 100}};
  keyed_semaphore<std::string> p{run.io, {.permits = 2, .most_keys = 100}};
  std::vector<std::string> keys;
  for (int i = 0; i < 300; ++i) keys.push_back("client " + std::to_string(i));
  std::int64_t awaited = -1;
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 200; ++i) co_await s.acquire(keys[0]);
    const counted c;
    for (int i = 0; i < 9; ++i) co_await s.acquire(keys[1]);
    awaited = c.so_far();
  });
  run.time.run();
  CHECK(awaited == 0);
  for (const std::string& key : keys) (void)s.try_acquire(key);
  for (const std::string& key : keys) (void)p.try_acquire(key);

  const counted c;
  for (const std::string& key : keys) {
    (void)s.try_acquire(key);
    (void)s.retry_after(key);
    auto one = p.try_acquire(key);
  }
  CHECK(c.so_far() == 0);
}

TEST_CASE("a retry whose first attempt succeeds allocates nothing", "[memory]") {
  limits_run run;
  retry_budget budget;
  std::int64_t awaited = -1;
  run.go([&]() -> net::awaitable<void> {
    const auto nothing = []() -> net::awaitable<void> { co_return; };
    const retry_policy policy{.attempts = 3, .budget = &budget};
    for (int i = 0; i < 100; ++i) co_await retry(nothing, policy);
    const counted c;
    for (int i = 0; i < 1000; ++i) co_await retry(nothing, policy);
    awaited = c.so_far();
  });
  run.time.run();
  CHECK(awaited == 0);
}

TEST_CASE("a circuit breaker allocates nothing, whatever it does with a call", "[memory]") {
  limits_run run;
  circuit_breaker b{run.io, {.least_calls = 10, .slow = 1ms, .open_for = 1ms}};
  std::int64_t awaited = -1;
  run.go([&]() -> net::awaitable<void> {
    const auto nothing = []() -> net::awaitable<void> { co_return; };
    for (int i = 0; i < 100; ++i) co_await with_breaker(nothing(), b);
    const counted c;
    for (int i = 0; i < 1000; ++i) co_await with_breaker(nothing(), b);
    awaited = c.so_far();
  });
  run.time.run();
  CHECK(awaited == 0);

  run.time.run_for(1h);
  const counted c;
  for (int i = 0; i < 1000; ++i) {
    auto p = b.try_enter();
    if (p && i % 3 > 0) p->failed();
    if (i % 100 == 0) run.time.run_for(1s);
    (void)b.stats();
  }
  const auto allocated = c.so_far();
  CHECK(allocated == 0);
  CHECK(b.stats().opened > 5);
}

TEST_CASE("flows allocate nothing in steady state, whatever holds them", "[memory]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(3000), 10}}, .concurrency = 5, .priorities = 2, .ageing = 3ms}};
  std::vector<std::unique_ptr<flow>> flows;
  for (std::uint32_t i = 0; i < 10; ++i) {
    flow_options o{.weight = 1 + i};
    if (i % 3 == 0) o.concurrency = 1;
    if (i % 4 == 0) o.rates = {{rate::per_second(100), 3}};
    flows.push_back(std::make_unique<flow>(l, o));
  }
  bool stop = false;
  for (std::size_t i = 0; i < 40; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      int n = 0;
      while (!stop) {
        permit p = co_await l.acquire({.priority = n++ % 2, .flow = flows[i % 10].get()});
        p.settle(2);
      }
    });
  }
  run.time.run_for(1s);
  const counted c;
  run.time.run_for(1s);
  for (const auto& f : flows) f->set_weight(3);
  run.time.run_for(1s);
  CHECK(c.so_far() == 0);
  stop = true;
  run.time.run();
}

TEST_CASE("a limiter with alternatives allocates nothing in steady state, with flows or without", "[memory]") {
  const bool has_flows = GENERATE(false, true);
  limits_run run;
  limiter_options o{.rates = {{rate::per_second(20'000), 100, 100}}, .priorities = 2, .ageing = 3ms};
  for (int i = 0; i < 8; ++i) {
    o.alternatives.push_back({.rates = {{rate::per_second(100 + 50 * i), 10, 10}}, .prefer = i % 2});
    if (i % 3 == 0) o.alternatives.back().concurrency = 2;
  }
  limiter l{run.io, o};
  flow heavy{l, {.weight = 3}}, held{l, {.rates = {{rate::per_second(100), 3}}}};
  bool stop = false;
  for (std::size_t i = 0; i < 40; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      const flow* const of[] = {nullptr, &heavy, &held};
      const std::uint64_t sets[] = {255, 1, 6, 15, 240};
      int n = 0;
      while (!stop) {
        permit p = co_await l.acquire(
            {.priority = n++ % 2, .flow = has_flows ? of[i % 3] : nullptr, .alternatives = sets[i % 5]});
        p.settle(2);
      }
    });
  }
  run.time.run_for(1s);
  const counted c;
  run.time.run_for(1s);
  l.alternative(3).pause_until(run.time.now() + 300ms);
  l.alternative(0).set_rate(0, rate::per_second(1000));
  l.alternative(1).set_burst(0, 5);
  run.time.run_for(1s);
  const auto allocated = c.so_far();
  CHECK(allocated == 0);
  CHECK(l.stats().granted > 1000);
  stop = true;
  run.time.run();
}

TEST_CASE("a request for an alternative that finds no memory takes nothing", "[memory]") {
  limits_run run;
  limiter l{run.io, {.alternatives = {{.name = "a", .rates = {{rate::per_hour(1), 1, 1}}, .concurrency = 1}}}};
  bool is_refused = false;
  {
    const failing none{0, all, 1000};
    try {
      is_refused = !l.try_acquire();
    } catch (const std::exception&) {
      is_refused = true;
    }
  }
  CHECK(is_refused);
  CHECK(l.stats().alternatives[0].held == 0);
  CHECK(l.stats().alternatives[0].tokens.front() == 1);
  const auto p = l.try_acquire();
  CHECK(p);
}

TEST_CASE("flows that come and go allocate nothing, also those whose permit outlives them", "[memory]") {
  limits_run run;
  semaphore s{run.io, {.permits = 2}};
  const auto come_and_go = [&s] {
    for (int i = 0; i < 500; ++i) {
      std::optional<flow> gone{std::in_place, s};
      const flow stays{s};
      const auto p = s.try_acquire({.flow = &*gone}), q = s.try_acquire({.flow = &stays});
      gone.reset();
    }
  };
  come_and_go();
  const counted c;
  come_and_go();
  const auto allocated = c.so_far();
  CHECK(allocated == 0);
}

TEST_CASE("requests of several units allocate nothing in steady state, with flows or without", "[memory]") {
  limits_run run;
  const rate r = rate::per_second(1000);
  limiter l{run.io, {.rates = {{r, 1000, 1000, "requests"}, {r, 1000, 1000, "tokens"}}}};
  std::optional<flow> f;
  const auto acquire_often = [&] {
    for (int i = 0; i < 500; ++i) {
      if (!l.try_acquire({.flow = f ? &*f : nullptr, .amounts = {{"tokens", 2}}})) return false;
    }
    run.time.run_for(1s);
    return true;
  };
  for (const bool has_flow : {false, true}) {
    if (has_flow) f.emplace(l);
    CHECK(acquire_often());
    const counted c;
    const bool all = acquire_often();
    const auto allocated = c.so_far();
    CHECK(allocated == 0);
    CHECK(all);
  }
}

TEST_CASE("requests of several units that are refused, late or cancelled leave nothing on the heap", "[memory]") {
  const bool has_flow = GENERATE(false, true);
  limits_run run;
  const rate r = rate::per_hour(1);
  limiter l{run.io, {.rates = {{r, 10, 1, "requests"}, {r, 10, 1, "tokens"}}, .queue_limit = 1}};
  std::optional<flow> f;
  if (has_flow) f.emplace(l);
  const flow* const of = has_flow ? &*f : nullptr;
  CHECK(l.try_acquire({.flow = of, .amounts = {{"tokens", 1}}}));
  const auto ask = [&](time_point deadline) {
    net::cancellation_signal signal;
    std::vector<std::error_code> ends;
    ends.reserve(4);
    const auto note = [&ends](std::error_code ec, const permit&) { ends.push_back(ec); };
    l.async_acquire({.flow = of, .amounts = {{"tokens", 2}}}, net::bind_cancellation_slot(signal.slot(), note));
    l.async_acquire({.flow = of, .amounts = {{"tokens", 2}}}, note);                        // the queue is full
    l.async_acquire({.deadline = deadline, .flow = of, .amounts = {{"tokens", 2}}}, note);  // can't be met
    l.async_acquire({.flow = of, .amounts = {{"tokens", 11}}}, note);                       // too large
    run.time.run_for(1ms);
    signal.emit(net::cancellation_type::terminal);
    run.time.run_for(1ms);
    return ends;
  };
  const std::vector<std::error_code> first = ask(run.time.now() + 1s);
  CHECK(first.size() == 4);
  for (int i = 0; i < 10; ++i) CHECK(ask(run.time.now() + 1s) == first);
  const std::int64_t before = live;
  bool are_same = true;
  for (int i = 0; i < 100; ++i) are_same = are_same && ask(run.time.now() + 1s) == first;
  const std::int64_t more = live - before;
  CHECK(more < 10);
  CHECK(are_same);
}

TEST_CASE("an adaptive limit allocates nothing in steady state, nor while it changes", "[memory]") {
  limits_run run;
  adaptive_limit l{run.io, {.initial = 4, .most = 4, .priorities = 2}};
  scheduler pace{run.io, {.rate = rate::per_second(1000)}};
  bool stop = false;
  for (int i = 0; i < 16; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      while (!stop) {
        auto p = co_await l.acquire({.priority = i % 2, .deadline = run.time.now() + 10s});
        co_await pace.acquire();
        p.succeeded();
      }
    });
  }
  run.time.run_for(1s);
  const counted while_contended;
  run.time.run_for(1s);
  CHECK(while_contended.so_far() == 0);
  stop = true;
  run.time.run();

  adaptive_limit changing{run.io, {.initial = 4, .algorithm = aimd{.target = 1h}}};
  std::uint64_t low = 1000, high = 0;
  const counted while_changing;
  for (int i = 0; i < 5000; ++i) {
    auto first = changing.try_acquire();
    std::array<std::optional<adaptive_permit>, 3> others{changing.try_acquire(), changing.try_acquire(),
                                                         changing.try_acquire()};
    run.time.run_for(1ms);
    i % 1000 < 500 ? first->dropped() : first->succeeded();
    low = std::min(low, changing.limit());
    high = std::max(high, changing.limit());
  }
  const auto allocated = while_changing.so_far();
  CHECK(allocated == 0);
  CHECK(low < high);
}

TEST_CASE("a flow that there is no memory for changes nothing", "[memory]") {
  const auto tried = for_every_allocation([&](std::int64_t k) {
    limits_run run;
    semaphore s{run.io, {.permits = 2, .priorities = 2}};
    const permit p = s.try_acquire().value();
    bool failed = false;
    std::optional<flow> f;
    {
      const failing one{k, by_new};
      try {
        f.emplace(s, flow_options{.rates = {{rate::per_second(1), 5, 5}}});
      } catch (const std::bad_alloc&) {
        failed = true;
      }
    }
    CHECK(f.has_value() != failed);
    CHECK(s.try_acquire(f ? request{.flow = &*f} : request{}));
    CHECK(s.stats().held == 1);
    f.emplace(s);
    return failed;
  });
  CHECK(tried > 0);
}

TEST_CASE("a queue of flows that there is no memory for is as before, and what is in it needs none", "[memory]") {
  using detail::fair_queue;
  constexpr std::uint32_t most = 9;
  const time_point start{1s};
  const auto amounts = [](const detail::wait_node&) noexcept -> const detail::amounts_by_unit* { return nullptr; };
  const detail::delay_rule sheds{{.target = 1ms}};
  const auto tried = for_every_allocation([&](std::int64_t k) {
    fair_queue q{65, 1ms, detail::supplies::occupancy::one, amounts, sheds};  // two words of bits for each flow
    std::uint32_t added = 0;
    bool failed = false;
    {
      const failing one{k, by_new};
      failed = !attempt([&] {
        for (; added < most && q.add({}) == added + 1; ++added) {
        }
      });
    }
    CHECK(failed == (added < most));
    std::uint32_t next = 0;
    while (added < most && (next = q.add({})) == added + 1) ++added;
    CHECK(added == most);

    const counted c;
    std::array<detail::wait_node, 2 * most> nodes;
    time_point now = start;
    q.advance(now);
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      nodes[i].priority = i % 2 == 0 ? 0 : 64;
      nodes[i].tokens = 1;
      q.push(nodes[i], i / 2 + 1);
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      q.advance(now += 1ms);
      if (detail::wait_node* n = q.front()) q.grant(*n, now);
    }
    for (std::uint32_t i = 1; i <= most; ++i) {
      q.release(i, 2);
      q.forget(i);
    }
    const auto allocated = c.so_far();
    CHECK(q.size() == 0);
    CHECK(allocated == 0);
    return failed;
  });
  CHECK(tried > 0);
}

TEST_CASE("a contended semaphore and a limiter allocate nothing in steady state", "[memory]") {
  limits_run run;
  semaphore s{run.io, {.permits = 2, .priorities = 2}};
  limiter l{run.io, {.rates = {{rate::per_second(1000), 1}, {rate::per_second(2000), 1}}, .concurrency = 3}};
  bool stop = false;
  for (int i = 0; i < 16; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      while (!stop) {
        permit p = co_await s.acquire({.priority = i % 2, .deadline = run.time.now() + 10s});
        permit q = co_await l.acquire();
        q.settle(2);
      }
    });
  }
  run.time.run_for(1s);
  const counted c;
  run.time.run_for(1s);
  CHECK(c.so_far() == 0);
  stop = true;
  run.time.run();
}

TEST_CASE("limiters that share a cap allocate nothing in steady state, free or not", "[memory]") {
  limits_run run;
  shared_cap outer{{.permits = 3}};
  shared_cap inner{{.permits = 2}};
  limiter a{run.io, {.share = outer, .priorities = 2, .ageing = 3ms}};
  limiter b{run.io, {.concurrency = 2, .share = outer, .priorities = 2, .ageing = 5ms}};
  limiter c{run.io, {.rates = {{rate::per_second(1000), 1}, {rate::per_second(2000), 1}}, .share = inner}};
  limiter d{run.io, {.rates = {{rate::per_second(500), 1}}, .share = inner}};
  bool stop = false;
  for (int i = 0; i < 16; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      while (!stop) {
        permit p = co_await (i % 2 == 0 ? a : b).acquire({.priority = i % 4 / 2, .deadline = run.time.now() + 10s});
        permit q = co_await (i % 5 == 0 ? c : d).acquire({.deadline = run.time.now() + 10s});
        q.settle(2);
      }
    });
  }
  run.time.run_for(3s);
  const counted contended;
  run.time.run_for(1s);
  CHECK(contended.so_far() == 0);
  stop = true;
  run.time.run();

  std::int64_t awaited = -1;
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 300; ++i) const permit p = co_await b.acquire();
    const counted free;
    for (int i = 0; i < 1000; ++i) const permit p = co_await b.acquire(i % 2);
    awaited = free.so_far();
  });
  run.time.run();
  CHECK(awaited == 0);
}

TEST_CASE("the steps of a metered stream allocate nothing, whether they wait or not", "[memory]") {
  net::io_context io;
  using socket = net::local::stream_protocol::socket;
  socket one{io}, other{io};
  net::local::connect_pair(one, other);
  scheduler limit{io, {.rate = rate::per_second(50'000'000), .burst = 4'096, .initial_tokens = 4'096}};
  const metering half{.limit = &limit};
  metered_stream<socket> from{std::move(one), {.write = half, .chunk = 1'024}};
  metered_stream<socket> to{std::move(other), {.read = half, .chunk = 1'024}};
  std::int64_t awaited = -1;
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        std::array<char, 1'024> room{};
        const auto one_step = [&]() -> net::awaitable<void> {
          const std::size_t sent = co_await from.async_write_some(net::buffer(room));
          std::size_t come = 0;
          while (come < sent) come += co_await to.async_read_some(net::buffer(room));
        };
        for (int i = 0; i < 100; ++i) co_await one_step();
        const counted c;
        for (int i = 0; i < 300; ++i) co_await one_step();
        awaited = c.so_far();
      },
      net::detached);
  io.run();
  CHECK(awaited == 0);
  CHECK(limit.stats().granted >= 800);
}

TEST_CASE("a callback that waits allocates nothing once the allocator is warm", "[memory]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1}};
  struct again {
    semaphore* s;
    int* left;
    void operator()(std::error_code, permit) const {
      if (--*left > 0) s->async_acquire({}, *this);
    }
  };
  int left = 100;
  s.async_acquire({}, again{&s, &left});
  run.time.run();
  left = 1000;
  s.async_acquire({}, again{&s, &left});
  const counted c;
  run.time.run();
  CHECK(c.so_far() == 0);
}

TEST_CASE("who waits on another loop comes home without an allocation", "[memory]") {
  limits_run run;
  net::io_context other{1};
  semaphore s{run.io, {.permits = 1}};
  struct again {
    semaphore* s;
    int* left;
    std::int64_t* half_way;
    net::io_context* loop;
    using executor_type = net::io_context::executor_type;
    executor_type get_executor() const noexcept { return loop->get_executor(); }
    void operator()(std::error_code, const permit&) const {
      if (*left == 500) *half_way = made;
      if (--*left > 0) s->async_acquire({}, *this);
    }
  };
  int left = 1000;
  std::int64_t half_way = -1;
  auto out = s.try_acquire();
  for (int i = 0; i < 3; ++i) s.async_acquire({}, again{&s, &left, &half_way, &other});
  out.reset();
  other.run();
  CHECK(half_way > 0);
  CHECK(made - half_way == 0);
}

TEST_CASE("no allocation whose failure loses a permit: callers of another loop", "[memory]") {
  const auto tried = for_every_allocation([](std::int64_t k) {
    limits_run run;
    net::io_context other{1};
    semaphore s{run.io, {.permits = 3}};
    permit out = s.try_acquire({.tokens = 3}).value();
    int called = 0;
    int started = 0;
    failing f{k};
    for (int i = 0; i < 4; ++i) {
      try {
        s.async_acquire({}, net::bind_executor(other, [&](std::error_code ec, const permit& p) {
                          if (ec || p.held() == 1) ++called;
                        }));
        ++started;
      } catch (const std::bad_alloc&) {
      }
    }
    out.release();
    const bool has_failed = f.stop();
    for (int i = 0; i < 10; ++i) {
      run.time.run_for(2ms);
      other.restart();
      other.poll();
    }
    CAPTURE(k);
    CHECK(called == started);
    CHECK(s.stats().held == 0);
    CHECK(s.stats().waiting == 0);
    return has_failed;
  });
  CHECK(tried > 0);
}

TEST_CASE("no allocation whose failure loses a permit: callbacks", "[memory]") {
  const auto tried = for_every_allocation([](std::int64_t k) {
    limits_run run;
    semaphore s{run.io, {.permits = 3, .priorities = 2}};
    permit out = s.try_acquire({.tokens = 3}).value();
    int called = 0;
    int started = 0;
    bool has_failed = false;
    {
      failing f{k};
      for (int i = 0; i < 4; ++i) {
        try {
          s.async_acquire({.priority = i % 2, .deadline = i == 3 ? run.time.now() + 1ms : time_point::max()},
                          [&](std::error_code ec, permit p) {
                            if (ec || p.held() == 1) ++called;
                          });
          ++started;
        } catch (const std::bad_alloc&) {
        }
      }
      try {
        run.time.run_for(2ms);
        out.release();
        run.time.poll();
        s.resize(1);
        s.pause();
        s.resume();
      } catch (const std::bad_alloc&) {
      }
      has_failed = f.stop();
    }
    run.time.run();
    CAPTURE(k);
    CHECK(called == started);
    CHECK(s.stats().held == 0);
    CHECK(s.stats().waiting == 0);
    return has_failed;
  });
  CHECK(tried > 0);
}

TEST_CASE("no allocation whose failure loses a permit: coroutines, cancelled and stopped", "[memory]") {
  // A strand of Asio's that fails to allocate may keep what it was handed for ever. Nothing must be lost when the
  // context goes.
  const bool on_strands = GENERATE(false, true);
  const auto tried = for_every_allocation([&](std::int64_t k) {
    auto context = std::make_unique<limits_run>();
    limits_run& run = *context;
    semaphore s{run.io, {.permits = 2}};
    limiter l{run.io, {.rates = {{rate::per_second(1000), 2, 2}}, .concurrency = 1}};
    permit out = s.try_acquire({.tokens = 2}).value();
    net::cancellation_signal signal;
    std::error_code ended;
    int ends = 0;
    const auto visitor = [&]() -> net::awaitable<void> {
      const at_end e{ends};  // also where Asio has no memory for the exception, and destroys the coroutine instead
      try {
        const permit p = co_await s.acquire();
        const permit q = co_await l.acquire({.deadline = run.time.now() + 1s});
        co_await sleep_for(1ms);
      } catch (const std::exception&) {
      }
    };
    for (int i = 0; i < 2; ++i) {
      net::co_spawn(on_strands ? net::any_io_executor{net::make_strand(run.io)} : run.io.get_executor(), visitor,
                    net::detached);
    }
    run.go(visitor, signal, ended);
    run.time.poll();
    bool has_failed = false;
    {
      failing f{k};
      attempt([&] { signal.emit(net::cancellation_type::terminal); });
      out.release();
      attempt([&] { run.time.run_for(5ms); });
      s.stop();
      attempt([&] { run.time.run_for(5ms); });
      has_failed = f.stop();
    }
    run.time.run();
    CAPTURE(k);
    if (!on_strands) CHECK(ends == 3);
    if (on_strands) context.reset();
    CHECK(s.stats().held == 0);
    CHECK(l.stats().held == 0);
    return has_failed;
  });
  CHECK(tried > 0);
}

TEST_CASE("an acquire with an error code that has no memory loses no permit", "[memory]") {
  const auto tried = for_every_allocation([&](std::int64_t k) {
    limits_run run;
    semaphore s{run.io, {.permits = 2}};
    std::error_code error;
    bool has_failed = false;
    const auto acquire_often = [&](int times) -> net::awaitable<void> {
      for (int i = 0; i < times; ++i) {
        try {
          const permit p = co_await s.acquire(request{}, error);
          if (error && error != errc::not_enough_memory) FAIL(error.message());
        } catch (const std::bad_alloc&) {  // no memory for the coroutine itself
        }
      }
    };
    run.go([&]() -> net::awaitable<void> { co_await acquire_often(120); });
    run.time.run();
    // The turn that passes through the loop, and the ones around it. A new run has no blocks of earlier turns.
    run.go([&]() -> net::awaitable<void> {
      auto turns = acquire_often(40);
      failing f{k};
      co_await std::move(turns);
      has_failed = f.stop();
    });
    run.time.run();
    CAPTURE(k);
    CHECK(s.stats().held == 0);
    return has_failed;
  });
  CHECK(tried > 0);
}

TEST_CASE("a coroutine that has no memory to wait goes on with that error", "[memory]") {
  bool has_seen_the_error = false;
  const auto tried = for_every_allocation([&](std::int64_t k) {
    limits_run run;
    semaphore s{run.io, {.permits = 1}};
    bool has_failed = false;
    int ends = 0;
    run.go([&]() -> net::awaitable<void> {
      const at_end e{ends};
      failing f{k};
      try {
        const permit p = co_await s.async_acquire(request{}, net::use_awaitable);
      } catch (const std::bad_alloc&) {  // no memory for the coroutine that use_awaitable makes
      } catch (const std::system_error& error) {
        has_seen_the_error |= error.code() == errc::not_enough_memory;
      }
      has_failed = f.stop();
    });
    run.time.run();
    CAPTURE(k);
    CHECK(ends == 1);
    CHECK(s.stats().held == 0);
    return has_failed;
  });
  CHECK(tried > 0);
  CHECK(has_seen_the_error);
}

TEST_CASE("a hedge that has no memory for a copy ends once, with the others", "[memory]") {
  const auto tried = for_every_allocation([&](std::int64_t k) {
    limits_run run;
    semaphore s{run.io, {.permits = 3}};
    retry_budget budget{hedge_budget};
    int results = 0;
    int failures = 0;
    run.go([&]() -> net::awaitable<void> {
      const auto copy = [&s](std::uint32_t number) -> net::awaitable<int> {
        const permit p = co_await s.acquire();
        co_await sleep_for(number == 1 ? 10ms : 20ms);
        co_return 1;
      };
      try {
        results += co_await hedge(copy, {.after = 2ms, .copies = 2, .budget = &budget});
      } catch (const std::bad_alloc&) {
        ++failures;
      }
    });
    run.time.run_for(1ms);
    bool has_failed = false;
    {
      failing f{k, victims::by_new};  // while the second and the third start; no strand survives another one
      attempt([&] { run.time.run_for(5ms); });
      has_failed = f.stop();
    }
    run.time.run();
    CAPTURE(k);
    CHECK(results == 1);
    CHECK(failures == 0);
    CHECK(s.stats().held == 0);
    return has_failed;
  });
  CHECK(tried > 0);
}

TEST_CASE("making any of them fails as a whole, for want of memory", "[memory]") {
  limits_run run;
  const auto tried = for_every_allocation([&](std::int64_t k) {
    failing f{k};
    try {
      const semaphore s{run.io, {.permits = 2, .priorities = 8}};
      const limiter l{run.io, {.rates = {{rate::per_second(1)}}}};
      const gate g{run.io};
      const task_group t{run.io};
    } catch (const std::bad_alloc&) {
    }
    return f.stop();
  });
  CHECK(tried > 0);
}

namespace {

/// Larger than the room that any_io_executor has, so that another one with other properties takes memory.
struct large_executor {
  net::io_context* io;
  char large[100] = {};

  net::execution_context& query(net::execution::context_t) const noexcept { return *io; }
  static constexpr net::execution::blocking_t query(net::execution::blocking_t) noexcept {
    return net::execution::blocking.never;
  }
  template <class Function>
  void execute(Function&& f) const {
    net::post(*io, std::forward<Function>(f));
  }
  bool operator==(const large_executor& other) const noexcept { return io == other.io; }
};

}  // namespace

TEST_CASE("where there is no memory to keep the loop running for it a caller still waits", "[memory]") {
  limits_run run;
  semaphore s{net::any_io_executor{large_executor{&run.io}}, {.permits = 1}};
  permit out = s.try_acquire().value();
  int called = 0;
  {
    failing f{0, victims::unaligned};
    s.async_acquire({}, [&called](std::error_code ec, const permit& p) {
      if (!ec && p.held() == 1) ++called;
    });
    CHECK(f.stop());
  }
  CHECK(s.stats().waiting == 1);
  out.release();
  run.time.run();
  CHECK(called == 1);
}

TEST_CASE("who could not be told for want of memory is told later, or goes with the context", "[memory]") {
  const bool context_goes = GENERATE(false, true);
  auto run = std::make_unique<limits_run>();
  semaphore s{net::any_io_executor{large_executor{&run->io}}, {.permits = 1}};
  permit out = s.try_acquire().value();
  const auto alive = std::make_shared<int>();
  int called = 0;
  s.async_acquire({}, [&called, alive](std::error_code, const permit&) { ++called; });
  {
    failing f{0, victims::aligned, 100};  // which is what it is posted with
    out.release();
    s.pause();  // tries once more
    CHECK(f.stop());
  }
  run->time.poll();
  CHECK(called == 0);
  if (context_goes) {
    run.reset();
  } else {
    run->time.run();
    CHECK(run->ms() == 1);
  }
  CHECK(called == (context_goes ? 0 : 1));
  CHECK(alive.use_count() == 1);
  CHECK(s.stats().held == 0);
}
