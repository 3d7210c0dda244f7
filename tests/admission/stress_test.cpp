// Many threads on one scheduler, semaphore and limiter, which are changed, paused and stopped meanwhile: every call
// ends exactly once, and tokens and permits are conserved. Nothing here looks at how long anything takes.

#include "canigo/cancel.hpp"
#include "canigo/gate.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/timeout.hpp"
#include "canigo/wait_group.hpp"

#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/dispatch.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

namespace {

constexpr int slowness = is_sanitized ? 2 : 1;

constexpr int rounds = 24'000 / slowness;  // of each of eight threads

/// Threads that run a context until join().
class loop {
 public:
  explicit loop(int threads) : guard_{io.get_executor()} {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { io.run(); });
  }
  ~loop() { join(); }
  void join() {
    guard_.reset();
    threads_.clear();
  }
  net::io_context io;

 private:
  net::executor_work_guard<net::io_context::executor_type> guard_;
  std::vector<std::jthread> threads_;
};

void on_threads(int n, const std::function<void(int)>& f) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back([&f, i] { f(i); });
}

/// How many operations began, and how they ended.
struct tally {
  std::atomic<std::uint64_t> begun{0}, granted{0}, cancelled{0}, timed_out{0}, evicted{0}, rejected{0}, stopped{0};
  std::atomic<std::uint64_t> tokens{0};

  void note(std::error_code ec, std::uint64_t weight = 1) {
    if (!ec) {
      tokens += weight;
      ++granted;
    } else if (ec == net::error::operation_aborted) {
      ++cancelled;
    } else if (ec == errc::timed_out) {
      ++timed_out;
    } else if (ec == errc::evicted) {
      ++evicted;
    } else if (ec == errc::stopped) {
      ++stopped;
    } else {
      ++rejected;
    }
  }
  std::uint64_t sum() const { return granted + cancelled + timed_out + evicted + rejected + stopped; }
  void wait_for_all() const {
    while (sum() != begun) std::this_thread::yield();
  }
};

void check_counts(const queue_stats& s, const tally& e) {
  CHECK(s.requested == e.begun);
  CHECK(s.waiting == 0);
  CHECK(s.granted == e.granted);
  CHECK(s.cancelled == e.cancelled);
  CHECK(s.timed_out == e.timed_out);
  CHECK(s.evicted == e.evicted);
  CHECK(s.rejected == e.rejected);
  CHECK(s.stopped == e.stopped);
}

/// A cancellation signal of Asio's may only be used on the strand of its operation: this brings it there.
struct cancellable {
  explicit cancellable(net::io_context& io) : strand{net::make_strand(io)} {}
  net::strand<net::io_context::executor_type> strand;
  net::cancellation_signal signal;
};

/// Calls start(a token for `handler`), and cancels what that started, if it is not over.
template <class Handler, class Start>
void start_and_cancel(net::io_context& io, Handler handler, Start start) {
  const auto c = std::make_shared<cancellable>(io);
  net::post(c->strand, [c, handler, start] {
    auto owner = [c, handler](std::error_code ec, auto&&... results) {
      handler(ec, std::forward<decltype(results)>(results)...);
    };
    start(net::bind_cancellation_slot(c->signal.slot(), net::bind_executor(c->strand, std::move(owner))));
  });
  net::post(c->strand, [c] { c->signal.emit(net::cancellation_type::total); });
}

}  // namespace

TEST_CASE("a cancellation races a grant a hundred thousand times, with one outcome each",
          "[scheduler][stress]") {  // S11
  constexpr int races = 100'000 / slowness;
  loop l{3};
  scheduler s{l.io, {.rate = rate::per_hour(1), .burst = races, .initial_tokens = 0}};
  tally e;
  std::atomic<std::uint64_t> given{0};
  std::thread giver{[&] {
    while (e.sum() < races) {
      if (s.stats().waiting == 0) {
        std::this_thread::yield();
        continue;
      }
      s.refund(1);
      ++given;
    }
  }};
  for (int i = 0; i < races; ++i) {
    ++e.begun;
    const time_point deadline = i % 2 == 0 ? time_point::max() : std::chrono::steady_clock::now() + 10000h;
    start_and_cancel(
        l.io, [&e](std::error_code ec) { e.note(ec); },
        [&s, deadline](auto token) { s.async_acquire({.deadline = deadline}, std::move(token)); });
    if (i % 64 == 0) {
      while (e.begun - e.sum() > 256) std::this_thread::yield();
    }
  }
  e.wait_for_all();
  giver.join();
  l.join();
  check_counts(s.stats(), e);
  CHECK(e.granted + e.cancelled == races);
  // Nothing was granted twice and nothing is lost: what was given is granted or still there.
  CHECK(s.stats().tokens == static_cast<std::int64_t>(given - e.granted));
}

TEST_CASE("eight threads ask, cancel, change, pause and stop one scheduler", "[scheduler][stress]") {
  loop l{4};
  constexpr std::uint64_t burst = 64;
  scheduler s{l.io,
              {.rate = rate::per_second(1),
               .burst = burst,
               .priorities = 4,
               .queue_limit = 300,
               .on_overflow = overflow::evict_least_important,
               .ageing = 1ms}};
  tally e;
  std::atomic<std::uint64_t> refunded{0}, charged{0};
  const rate rates[] = {rate::per_second(100'000), rate::per_second(1'000'000), rate::per_hour(1)};
  const time_point start = std::chrono::steady_clock::now();
  on_threads(8, [&](int thread) {
    std::minstd_rand random{static_cast<unsigned>(thread + 1)};
    for (int i = 0; i < rounds; ++i) {
      const request r{.priority = static_cast<int>(random() % 4),
                      .tokens = 1 + random() % 3,
                      .deadline = random() % 4 == 0
                                      ? std::chrono::steady_clock::now() + std::chrono::microseconds{random() % 2000}
                                      : time_point::max()};
      switch (random() % 16) {
        case 0:
          s.set_rate(rates[random() % 3]);
          break;
        case 1:
          s.set_burst(8 + random() % (burst - 8));
          break;
        case 2:
          if (random() % 8 == 0) s.pause_until(std::chrono::steady_clock::now() + 100us);
          break;
        case 3:
          s.resume();
          break;
        case 4: {
          const std::uint64_t n = random() % 4;
          refunded += n;
          s.refund(n);
          break;
        }
        case 5:
          s.charge(1);
          ++charged;
          break;
        case 6:
          (void)s.stats();
          (void)s.estimate(r);
          break;
        case 7:
          ++e.begun;
          e.note(s.try_acquire(r) ? std::error_code{} : make_error_code(errc::queue_full), r.tokens);
          break;
        case 8:
        case 9:
          ++e.begun;
          start_and_cancel(
              l.io, [&e, r](std::error_code ec) { e.note(ec, r.tokens); },
              [&s, r](auto token) { s.async_acquire(r, std::move(token)); });
          break;
        case 10:
          ++e.begun;
          net::co_spawn(l.io, s.acquire(r), [&e, r](std::exception_ptr p) {
            std::error_code ec;
            try {
              if (p) std::rethrow_exception(p);
            } catch (const std::system_error& error) {
              ec = error.code();
            }
            e.note(ec, r.tokens);
          });
          break;
        default:
          ++e.begun;
          s.async_acquire(r, [&e, r](std::error_code ec) { e.note(ec, r.tokens); });
          break;
      }
      if (e.begun - e.sum() > 2000) std::this_thread::yield();
    }
  });
  s.stop();
  e.wait_for_all();
  l.join();
  const auto stats = s.stats();
  check_counts(stats, e);
  CHECK(e.granted > 0);
  CHECK(e.cancelled > 0);
  // R1 over the whole run, at the fastest rate that was ever set.
  const auto elapsed = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - start) / 1us);
  CHECK(e.tokens <= burst + elapsed + refunded);
}

TEST_CASE("eight threads on one semaphore never hold more than there are", "[semaphore][stress]") {
  loop l{4};
  semaphore s{l.io, {.permits = 5, .priorities = 3, .queue_limit = 200, .on_overflow = overflow::evict_oldest}};
  tally e;
  std::atomic<std::uint64_t> inside{0}, peak{0};
  const auto enter = [&](permit p) {
    const std::uint64_t now = inside += p.held();
    std::uint64_t seen = peak.load(std::memory_order_relaxed);
    while (now > seen && !peak.compare_exchange_weak(seen, now)) {
    }
    inside -= p.held();
  };
  on_threads(8, [&](int thread) {
    std::minstd_rand random{static_cast<unsigned>(thread + 1)};
    for (int i = 0; i < rounds; ++i) {
      const request r{.priority = static_cast<int>(random() % 3),
                      .tokens = 1 + random() % 2,
                      .deadline = random() % 8 == 0
                                      ? std::chrono::steady_clock::now() + std::chrono::microseconds{random() % 500}
                                      : time_point::max()};
      switch (random() % 8) {
        case 0:
          s.resize(2 + random() % 4);
          break;
        case 1:
          if (auto p = (++e.begun, s.try_acquire(r))) {
            e.note({});
            permit half = p->split(1);
            enter(std::move(half));
          } else {
            e.note(make_error_code(errc::queue_full));
          }
          break;
        case 2:
          ++e.begun;
          start_and_cancel(
              l.io,
              [&](std::error_code ec, permit p) {
                if (!ec) enter(std::move(p));
                e.note(ec);
              },
              [&s, r](auto token) { s.async_acquire(r, std::move(token)); });
          break;
        default:
          ++e.begun;
          s.async_acquire(r, [&](std::error_code ec, permit p) {
            if (!ec) enter(std::move(p));
            e.note(ec);
          });
          break;
      }
      if (e.begun - e.sum() > 1000) std::this_thread::yield();
    }
  });
  s.resize(5);
  e.wait_for_all();
  l.join();
  check_counts(s.stats(), e);
  CHECK(s.stats().held == 0);
  CHECK(inside == 0);
  CHECK(peak <= 5);
  CHECK(peak >= 1);
}

TEST_CASE("eight threads on one limiter, and everything is given back", "[limiter][stress]") {
  loop l{4};
  limiter s{l.io,
            {.rates = {{rate::per_second(1'000'000), 100}, {rate::per_second(500'000), 200}},
             .concurrency = 6,
             .priorities = 2}};
  tally e;
  std::atomic<int> inside{0}, peak{0};
  on_threads(8, [&](int thread) {
    std::minstd_rand random{static_cast<unsigned>(thread + 1)};
    for (int i = 0; i < rounds / 2; ++i) {
      const request r{.priority = static_cast<int>(random() % 2), .tokens = 1 + random() % 4};
      const std::uint64_t used = random() % 6;
      if (random() % 16 == 0) (void)s.why_waiting();
      ++e.begun;
      const auto done = [&, used](std::error_code ec, permit p) {
        if (!ec) {
          const int now = ++inside;
          int seen = peak.load(std::memory_order_relaxed);
          while (now > seen && !peak.compare_exchange_weak(seen, now)) {
          }
          p.settle(used);
          --inside;
          p.release();
        }
        e.note(ec);
      };
      if (random() % 4 == 0) {
        start_and_cancel(l.io, done, [&s, r](auto token) { s.async_acquire(r, std::move(token)); });
      } else {
        s.async_acquire(r, done);
      }
      while (e.begun - e.sum() > 1000) std::this_thread::yield();
    }
  });
  e.wait_for_all();
  l.join();
  check_counts(s.stats(), e);
  CHECK(s.stats().held == 0);
  CHECK(peak <= 6);
}

TEST_CASE("schedulers that are stopped and destroyed under the hands of eight threads", "[scheduler][stress]") {
  loop l{4};
  for (int round = 0; round < 400 / slowness; ++round) {
    tally e;
    auto s = std::make_shared<scheduler>(
        l.io, scheduler_options{.rate = rate::per_second(100'000), .burst = 4, .priorities = 2});
    on_threads(4, [&, s](int thread) {
      for (int i = 0; i < 50; ++i) {
        ++e.begun;
        s->async_acquire({.priority = i % 2}, [&e](std::error_code ec) { e.note(ec); });
        if (thread == 0 && i == 25) s->stop();
        if (thread == 1 && i == 30) s->set_rate(rate::per_hour(1));
      }
    });
    s.reset();
    e.wait_for_all();
    CHECK(e.stopped + e.granted == 200);
  }
}

TEST_CASE("time limits and cancel sources from many threads end each operation once", "[timeout][cancel][stress]") {
  loop l{4};
  std::atomic<int> ended{0}, unexpected{0};
  constexpr int many = 8000 / slowness;
  for (int i = 0; i < many; ++i) {
    const auto source = std::make_shared<cancel_source>();
    const auto done = [&, source](std::exception_ptr p) {
      try {
        if (p) std::rethrow_exception(p);
      } catch (const std::system_error& error) {
        if (error.code() != errc::timed_out && error.code() != net::error::operation_aborted) ++unexpected;
      }
      ++ended;
    };
    const auto us = std::chrono::microseconds{i % 7 * 10};
    net::co_spawn(l.io, source->wrap(with_timeout(sleep_for(us), 30us)), done);
    if (i % 3 == 0) source->cancel();
    while (i - ended > 500) std::this_thread::yield();
  }
  while (ended < many) std::this_thread::yield();
  l.join();
  CHECK(unexpected == 0);
}

TEST_CASE("gates and groups that eight threads enter and leave", "[gate][wait_group][stress]") {
  loop l{4};
  for (int round = 0; round < 200 / slowness; ++round) {
    gate g{l.io};
    wait_group w{l.io};
    std::atomic<int> inside{0}, closed{0}, waited{0};
    std::atomic<bool> wrong{false};
    w.add(8);
    w.async_wait([&](std::error_code) { ++waited; });
    on_threads(8, [&](int thread) {
      for (int i = 0; i < 50; ++i) {
        if (thread == 0 && i == 25) {
          for (int k = 0; k < 3; ++k) {
            g.async_close([&](std::error_code ec) {
              if (ec || inside != 0) wrong = true;
              ++closed;
            });
          }
        }
        if (auto p = g.try_enter()) {
          ++inside;
          --inside;
        }
      }
      w.done();
    });
    while (closed < 3 || waited < 1) std::this_thread::yield();
    CHECK_FALSE(wrong);
  }
}
