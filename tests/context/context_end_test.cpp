// A context is destroyed on one thread while another uses what lives there: whoever comes second finds it gone, and
// nobody is called. What the sanitizers look at; see tests/interleaving/visits_test.cpp for every order.

#include "canigo/cancel.hpp"
#include "canigo/cancel_after.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task_group.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/fickle_executor.hpp"

#include <asio/async_result.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

using namespace canigo;
using namespace std::chrono_literals;

namespace context_end {

namespace net = canigo::net;

/// One round: a context, what lives there, and what a thread does while another one destroys the context.
struct round {
  std::unique_ptr<net::io_context> io = std::make_unique<net::io_context>();
  std::shared_ptr<int> alive = std::make_shared<int>();  // held by all that is to go with the context
  std::function<void()> meanwhile;
  std::function<void()> afterwards = [] {};

  net::any_io_executor executor(bool is_strand) const {
    if (is_strand) return net::any_io_executor{net::make_strand(*io)};
    return net::any_io_executor{io->get_executor()};
  }
  auto never() const {
    return [held = alive](auto&&...) { std::terminate(); };
  }
};

/// Plays rounds; in each the other thread is a little later than in the one before.
template <class Setup>
void play(Setup setup) {
  constexpr int rounds = 200;
  for (int i = 0; i < rounds; ++i) {
    round r;
    setup(r, i % 2 == 1);
    std::atomic<int> ready{0};
    const auto meet = [&ready] {
      ready.fetch_add(1);
      while (ready.load() < 2) std::this_thread::yield();
    };
    std::thread other{[&] {
      meet();
      for (std::atomic<int> n{i * 5}; n.fetch_sub(1) > 0;) {
      }
      r.meanwhile();
    }};
    meet();
    r.io.reset();
    other.join();
    r.meanwhile = nullptr;
    r.afterwards();
    REQUIRE(r.alive.use_count() == 1);
  }
}

}  // namespace context_end

TEST_CASE("a context goes while permits come back to who waits there", "[context_end][threads]") {
  context_end::play([](context_end::round& r, bool on_strand) {
    auto s = std::make_shared<semaphore>(r.executor(on_strand), semaphore_options{.permits = 2});
    auto first = std::make_shared<permit>(s->try_acquire().value());
    auto second = std::make_shared<permit>(s->try_acquire().value());
    s->async_acquire({}, r.never());
    s->async_acquire({}, net::bind_executor(r.executor(true), r.never()));
    r.meanwhile = [s, first, second] {
      first->release();
      second->release();
    };
    r.afterwards = [s] { REQUIRE(s->stats().held == 0); };
  });
}

TEST_CASE("a context goes while its limits are changed and stopped", "[context_end][threads]") {
  context_end::play([](context_end::round& r, bool on_strand) {
    auto s = std::make_shared<scheduler>(r.executor(on_strand), scheduler_options{.rate = rate::per_hour(1)});
    auto l = std::make_shared<limiter>(r.executor(on_strand), limiter_options{.rates = {{rate::per_hour(1)}}});
    s->async_acquire({}, r.never());
    s->async_acquire({}, net::bind_executor(r.executor(true), r.never()));
    l->async_acquire({}, r.never());
    l->async_acquire({.deadline = time_point::max() - 1h}, net::bind_executor(r.executor(true), r.never()));
    r.meanwhile = [s, l] {
      s->refund(1);
      s->set_rate(rate::per_second(1'000'000));
      (void)s->try_acquire();
      (void)s->estimate({});
      l->stop();
    };
  });
}

TEST_CASE("a context goes while a limit that is waited for is destroyed", "[context_end][threads]") {
  context_end::play([](context_end::round& r, bool on_strand) {
    auto l = std::make_shared<std::optional<limiter>>();
    l->emplace(r.executor(on_strand), limiter_options{.rates = {{rate::per_hour(1)}}});
    (*l)->async_acquire({}, r.never());
    (*l)->async_acquire({}, net::bind_executor(r.executor(true), r.never()));
    r.meanwhile = [l] { l->reset(); };
  });
}

TEST_CASE("a context goes while its pool takes work, grows and is stopped", "[context_end][threads]") {
  context_end::play([](context_end::round& r, bool on_strand) {
    auto pool = std::make_shared<std::optional<strand_pool>>();
    pool->emplace(r.executor(on_strand), strand_pool_options{.concurrency = 2});
    auto running =
        std::make_shared<task<void>>((*pool)->submit([held = r.alive](task_context&) { return sleep_for(1h); }));
    auto queued = std::make_shared<task<void>>((*pool)->submit([held = r.alive] {}, {.delay = 1h}));
    running->async_wait(r.never());
    queued->async_wait(net::bind_executor(r.executor(true), r.never()));
    r.io->poll();
    REQUIRE(running->state() == task_state::running);
    r.meanwhile = [pool, running, queued, alive = r.alive] {
      (void)(*pool)->try_post([alive] {});
      auto one = (*pool)->submit([alive] {});
      (*pool)->resize(4);
      queued->cancel();
      running->cancel();
      (*pool)->request_stop(stop_mode::finish_running, 1h);
      (*pool)->request_stop(stop_mode::cancel_all);
      one.cancel();
    };
    r.afterwards = [pool, running, queued] {
      REQUIRE(has_ended(running->state()));
      REQUIRE(has_ended(queued->state()));
      pool->reset();
    };
  });
}

TEST_CASE("a context goes while its pool is destroyed, then what runs there is cancelled", "[context_end][threads]") {
  context_end::play([](context_end::round& r, bool on_strand) {
    auto pool = std::make_shared<std::optional<strand_pool>>();
    pool->emplace(r.executor(on_strand), strand_pool_options{.concurrency = 1});
    auto running = std::make_shared<std::optional<task<void>>>(
        (*pool)->submit([held = r.alive](task_context&) { return sleep_for(1h); }));
    r.io->poll();
    r.meanwhile = [pool, running] {
      pool->reset();
      (*running)->cancel();
      running->reset();
    };
  });
}

TEST_CASE("a context goes while what a cancelled task holds still needs it", "[context_end][threads]") {
  context_end::play([](context_end::round& r, bool) {
    auto pool = std::make_shared<strand_pool>(*r.io, strand_pool_options{.concurrency = 1});
    auto t = std::make_shared<task<void>>(
        pool->submit([held = r.alive, strand = net::make_strand(*r.io)] {}, {.delay = 1h}));
    r.meanwhile = [t] { t->cancel(); };
    r.afterwards = [pool, t] { REQUIRE(has_ended(t->state())); };
  });
}

TEST_CASE("a context goes while a source and a group cancel what runs there", "[context_end][threads]") {
  context_end::play([](context_end::round& r, bool on_strand) {
    auto stop = std::make_shared<cancel_source>();
    auto group = std::make_shared<task_group>(r.executor(on_strand));
    auto wrapped = [](std::shared_ptr<cancel_source> source, std::shared_ptr<int>) -> net::awaitable<void> {
      co_await source->wrap(sleep_for(1h));
    };
    auto child = [](std::shared_ptr<int>) -> net::awaitable<void> { co_await sleep_for(1h); };
    for (int i = 0; i < 3; ++i) {
      net::co_spawn(r.executor(on_strand), wrapped(stop, r.alive), net::detached);
      group->spawn(child(r.alive));
    }
    r.io->poll();
    REQUIRE(group->running() == 3);
    r.meanwhile = [stop, group] {
      stop->cancel();
      group->cancel();
    };
    r.afterwards = [group] { REQUIRE(group->running() == 0); };
  });
}

TEST_CASE("a handler that is called inside a post may destroy the context", "[context_end]") {
  auto io = std::make_unique<net::io_context>();
  const net::any_io_executor at_once{fickle_executor{*io, [] { return mood::calls; }}};
  semaphore s{at_once, {.permits = 2}};
  strand_pool pool{*io, {.concurrency = 1}};
  std::optional<permit> p{s.try_acquire()};
  std::optional<permit> other{s.try_acquire()};
  int calls = 0;
  s.async_acquire({}, [&](std::error_code, permit) {
    ++calls;
    io.reset();
  });
  s.async_acquire({}, net::bind_executor(at_once, [&](std::error_code, permit) { ++calls; }));
  SECTION("one by one") {
    p.reset();
    other.reset();
  }
  SECTION("all at once") { s.stop(); }
  CHECK(io == nullptr);
  CHECK(calls == 1);
  p.reset();
  other.reset();
  pool.resize(3);
  CHECK(!s.try_acquire());
}

TEST_CASE("a handler that is called inside a post of a pool may destroy the context", "[context_end]") {
  auto io = std::make_unique<net::io_context>();
  const net::any_io_executor at_once{fickle_executor{*io, [] { return mood::calls; }}};
  strand_pool pool{*io, {.concurrency = 1}};
  auto t = pool.submit([] {}, {.delay = 1h});
  auto u = pool.submit([] {}, {.delay = 1h});
  int calls = 0;
  t.async_wait(net::bind_executor(at_once, [&](const std::exception_ptr&) {
    ++calls;
    io.reset();
  }));
  u.async_wait(net::bind_executor(at_once, [&](const std::exception_ptr&) { ++calls; }));
  pool.request_stop(stop_mode::cancel_all);
  CHECK(io == nullptr);
  CHECK(calls >= 1);
  CHECK(t.state() == task_state::stopped);
}

TEST_CASE("a signal that outlives the context keeps nothing of a limit of time", "[context_end]") {
  net::cancellation_signal signal;
  auto io = std::make_unique<net::io_context>();
  std::shared_ptr<void> kept;
  const auto never = [&kept](auto&& token) {
    return net::async_initiate<decltype(token), void(std::error_code)>(
        [&kept](auto handler) { kept = std::make_shared<decltype(handler)>(std::move(handler)); }, token);
  };
  never(canigo::cancel_after(
      1h,
      net::bind_cancellation_slot(signal.slot(), net::bind_executor(net::make_strand(*io), [](std::error_code) {}))));
  kept.reset();
  io.reset();
}

namespace context_end {

/// A context that is shut down twice, as each is from Asio 1.38 on.
struct shut_down_twice : net::io_context {
  ~shut_down_twice() { shutdown(); }
};

/// Does something in the middle of a context's end, when what was made later has been shut down, as another thread may.
struct moment : net::execution_context::service {
  using key_type = moment;
  static net::execution_context::id id;
  explicit moment(net::execution_context& context) : service{context} {}
  void shutdown() override {
    if (then) std::thread{std::exchange(then, nullptr)}.join();
  }
  std::function<void()> then;
};

net::execution_context::id moment::id;

}  // namespace context_end

TEST_CASE("a context may be shut down more than once", "[context_end]") {
  auto alive = std::make_shared<int>();
  {
    context_end::shut_down_twice io;
    semaphore s{io, {}};
    const auto p = s.try_acquire();
    s.async_acquire({}, [alive](std::error_code, const permit&) { std::terminate(); });
    strand_pool pool{io, {.concurrency = 2}};
    (void)pool.try_post([alive] {});
    io.poll_one();
  }
  CHECK(alive.use_count() == 1);
}

// Whichever object is the first of a context: what is given back after the time source was shut down finds nobody who
// waits, and nobody is left behind.
TEST_CASE("a context's time outlasts what waits there, also where a source came first", "[context_end][threads]") {
  for (const bool source_first : {false, true}) {
    auto alive = std::make_shared<int>();
    auto io = std::make_unique<net::io_context>();
    cancel_source source;
    if (source_first) {
      net::co_spawn(*io, source.wrap([]() -> net::awaitable<void> { co_return; }()), net::detached);
      io->run();
      io->restart();
    }
    auto& moment = net::use_service<context_end::moment>(*io);
    semaphore s{*io, {}};
    auto p = s.try_acquire();
    s.async_acquire({.deadline = std::chrono::steady_clock::now() + 1h},
                    [alive](std::error_code, const permit&) { std::terminate(); });
    io->poll();
    moment.then = [&p] { p.reset(); };
    io.reset();
    CAPTURE(source_first);
    CHECK(alive.use_count() == 1);
  }
}
