// S13: a scheduler, its waiters and their contexts may go in any order.

#include "canigo/scheduler.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/timeline.hpp"

#include <asio/bind_executor.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

namespace {

const scheduler_options one_per_hour{.rate = rate::per_hour(1), .burst = 4, .priorities = 2};

// Lives in a handler or in a frame, and says when that is destroyed.
class witness {
 public:
  explicit witness(int& count) : count_{&count} {}
  witness(witness&& other) noexcept : count_{std::exchange(other.count_, nullptr)} {}
  witness& operator=(witness&&) = delete;
  ~witness() {
    if (count_ != nullptr) ++*count_;
  }

 private:
  int* count_;
};

net::awaitable<void> waiting(scheduler& s, request r, witness) {
  co_await s.acquire(r);
  FAIL("a waiter that was destroyed went on");
}

void fill(net::io_context& io, scheduler& s, int& destroyed) {
  for (int i = 0; i < 5; ++i) {
    const request r{.priority = i % 2, .deadline = i == 3 ? time_point{100h} : time_point::max()};
    net::co_spawn(io, waiting(s, r, witness{destroyed}), net::detached);
    s.async_acquire(r, [w = witness{destroyed}](std::error_code) { FAIL("called"); });
  }
  io.restart();
  io.poll();
}

}  // namespace

TEST_CASE("a scheduler that is made and stopped at once", "[scheduler]") {
  net::io_context io;
  for (int i = 0; i < 1000; ++i) {
    scheduler s{io, one_per_hour};
    if (i % 2 == 0) s.stop();
  }
  CHECK(io.poll() == 0);
}

TEST_CASE("destroying a scheduler ends its waiters as stopped", "[scheduler]") {
  timeline t;
  {
    scheduler s{t.io, one_per_hour};
    t.acquire_all(s, {"a", "b"});
    t.acquire_all(s, {"c"}, {.priority = 1, .deadline = t.at(5h)});
    s.async_acquire({}, [&](std::error_code ec) { t.note("d", ec); });
    CHECK(t.log.empty());
  }
  CHECK(t.log.empty());  // by a post
  CHECK(t.poll() == events{"a stopped 0s", "b stopped 0s", "d stopped 0s", "c stopped 0s"});
  CHECK(t.idle());
}

TEST_CASE("destroying a scheduler loses no grant that is under way", "[scheduler]") {
  timeline t;
  {
    scheduler s{t.io, one_per_hour};
    t.acquire_all(s, {"a", "b"});
    s.refund(1);
  }
  CHECK(t.poll() == events{"a 0s", "b stopped 0s"});
}

TEST_CASE("the io_context goes first, with waiters of every kind", "[scheduler]") {
  int destroyed = 0;
  auto t = std::make_unique<timeline>();
  scheduler s{t->io, one_per_hour};
  fill(t->io, s, destroyed);
  SECTION("all queued") {}
  SECTION("some granted, none told") { s.refund(3); }
  SECTION("all stopped, none told") { s.stop(); }
  SECTION("all late, none told") {
    s.pause();
    time_source::of(t->io.get_executor());
  }
  t.reset();
  CHECK(destroyed == 10);

  // What is left refuses everything, and takes no harm from it.
  CHECK_FALSE(s.try_acquire());
  CHECK_FALSE(s.try_acquire({.deadline = time_point::max() - 1ns}));
  s.refund(1);
  s.charge(1);
  s.set_rate(rate::per_second(1));
  s.set_burst(3);
  s.pause_until(time_point{1h});
  s.resume();
  CHECK(s.stats().waiting == 0);
  CHECK_NOTHROW(s.estimate({}));
  s.stop();
}

TEST_CASE("a scheduler without its context refuses those of other contexts", "[scheduler]") {
  auto home = std::make_unique<net::io_context>();
  net::io_context elsewhere;
  scheduler s{*home, one_per_hour};
  home.reset();
  std::vector<std::error_code> ends;
  s.async_acquire({}, net::bind_executor(elsewhere, [&](std::error_code ec) { ends.push_back(ec); }));
  s.async_acquire({.deadline = time_point::max() - 1ns},
                  net::bind_executor(elsewhere, [&](std::error_code ec) { ends.push_back(ec); }));
  net::co_spawn(
      elsewhere,
      [](scheduler& from, std::vector<std::error_code>& out) -> net::awaitable<void> {
        try {
          co_await from.acquire();
        } catch (const std::system_error& e) {
          out.push_back(e.code());
        }
      }(s, ends),
      net::detached);
  elsewhere.run();
  CHECK(ends == std::vector<std::error_code>(3, errc::stopped));
}

TEST_CASE("a context goes whose coroutines wait for a scheduler elsewhere", "[scheduler]") {
  timeline t;
  scheduler s{t.io, one_per_hour};
  int destroyed = 0;
  auto elsewhere = std::make_unique<net::io_context>();
  s.async_acquire({}, net::bind_executor(net::make_strand(*elsewhere),
                                         [w = witness{destroyed}](std::error_code) { FAIL("called"); }));
  net::co_spawn(*elsewhere, waiting(s, {}, witness{destroyed}), net::detached);
  elsewhere->poll();
  REQUIRE(s.stats().waiting == 2);
  SECTION("while the answer is under way") {
    s.refund(2);
    elsewhere.reset();
    CHECK(destroyed == 2);
    CHECK(s.stats().tokens == 2);  // what nobody took delivery of is given back
  }
  SECTION("and its scheduler before") {
    s.stop();
    elsewhere.reset();
    CHECK(destroyed == 2);
  }
}

TEST_CASE("a scheduler inside a frame that waits for it", "[scheduler]") {
  const auto main = [](net::io_context& io, int& destroyed) -> net::awaitable<void> {
    scheduler own{io, one_per_hour};
    net::co_spawn(io, waiting(own, {}, witness{destroyed}), net::detached);
    co_await waiting(own, {}, witness{destroyed});
  };
  int destroyed = 0;
  {
    timeline t;
    net::co_spawn(t.io, main(t.io, destroyed), net::detached);
    t.time.poll();
    CHECK(destroyed == 0);
  }
  CHECK(destroyed == 2);
}

TEST_CASE("a scheduler inside a frame that waits for another one", "[scheduler]") {
  int destroyed = 0;
  {
    timeline t;
    scheduler outer{t.io, one_per_hour};
    net::co_spawn(
        t.io,
        [](net::io_context& io, scheduler& other, int& count) -> net::awaitable<void> {
          scheduler own{io, one_per_hour};
          net::co_spawn(io, waiting(own, {}, witness{count}), net::detached);
          own.async_acquire({}, [w = witness{count}](std::error_code) { FAIL("called"); });
          co_await other.acquire();
        }(t.io, outer, destroyed),
        net::detached);
    t.time.poll();
  }
  CHECK(destroyed == 2);
}

TEST_CASE("a scheduler that is destroyed by a handler it calls", "[scheduler]") {
  timeline t;
  std::optional<scheduler> s{std::in_place, t.io, one_per_hour};
  for (const char* name : {"a", "b", "c"}) {
    s->async_acquire({}, [&, name](std::error_code ec) {
      t.note(name, ec);
      s.reset();
    });
  }
  s->refund(2);
  CHECK(t.run() == events{"a 0s", "b 0s", "c stopped 0s"});
}

TEST_CASE("a scheduler that is destroyed by a coroutine it resumes", "[scheduler]") {
  timeline t;
  auto s = std::make_unique<scheduler>(t.io, one_per_hour);
  t.acquire_all(*s, {"before"});
  net::co_spawn(
      t.io,
      [](timeline& of, std::unique_ptr<scheduler>& it) -> net::awaitable<void> {
        co_await it->acquire();
        of.note("resumed");
        it.reset();
      }(t, s),
      net::detached);
  t.acquire_all(*s, {"after"});
  s->refund(2);
  CHECK(t.run() == events{"before 0s", "resumed 0s", "after stopped 0s"});
}

TEST_CASE("a scheduler on a strand goes before and after its context", "[scheduler]") {
  int destroyed = 0;
  SECTION("before") {
    timeline t;
    {
      scheduler s{net::any_io_executor{net::make_strand(t.io)}, one_per_hour};
      s.async_acquire({}, [&](std::error_code ec) { t.note("a", ec); });
    }
    CHECK(t.run() == events{"a stopped 0s"});
  }
  SECTION("after, with one under way") {
    auto t = std::make_unique<timeline>();
    scheduler s{net::any_io_executor{net::make_strand(t->io)}, one_per_hour};
    fill(t->io, s, destroyed);
    s.refund(1);
    t.reset();
    CHECK(destroyed == 10);
    CHECK_FALSE(s.try_acquire());
  }
}

TEST_CASE("a scheduler on a strand goes while another thread destroys its context", "[scheduler]") {
  for (int round = 0; round < 300; ++round) {
    auto io = std::make_unique<net::io_context>();
    std::optional<scheduler> s{std::in_place, net::any_io_executor{net::make_strand(*io)}, one_per_hour};
    std::atomic<int> ready = 0;
    const auto together = [&ready] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
    };
    std::thread other{[&] {
      together();
      s.reset();
    }};
    together();
    io.reset();
    other.join();
  }
}

TEST_CASE("a scheduler goes while its deadlines are called", "[scheduler]") {
  // The first to time out destroys the scheduler under the others, whose deadlines are due in the same instant.
  timeline t;
  std::optional<scheduler> s{std::in_place, t.io, one_per_hour};
  for (const char* name : {"a", "b", "c"}) {
    s->async_acquire({.deadline = t.at(1h) + 1ns}, [&, name](std::error_code ec) {
      t.note(name, ec);
      s.reset();
    });
  }
  s->pause();
  CHECK(t.run().size() == 3);
  CHECK(t.idle());
}

TEST_CASE("a thread destroys the scheduler while others use its context", "[scheduler]") {
  net::io_context io{2};
  auto work = net::make_work_guard(io);
  std::thread runner{[&] { io.run(); }};
  for (int i = 0; i < 300; ++i) {
    std::atomic<int> ended = 0;
    {
      scheduler s{io, {.rate = rate{1, 1us}, .burst = 2}};
      for (int k = 0; k < 8; ++k) {
        s.async_acquire({.deadline = std::chrono::steady_clock::now() + std::chrono::microseconds{k * 20}},
                        [&](std::error_code) { ++ended; });
      }
      std::this_thread::yield();
    }
    while (ended != 8) std::this_thread::yield();
  }
  work.reset();
  runner.join();
}
