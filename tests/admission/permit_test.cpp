#include "canigo/permit.hpp"

#include "canigo/semaphore.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <memory>
#include <thread>
#include <type_traits>

using namespace canigo;
using namespace std::chrono_literals;

namespace {
std::uint64_t out(const semaphore& s) { return s.stats().held; }
}  // namespace

static_assert(!std::is_copy_constructible_v<permit> && std::is_nothrow_move_constructible_v<permit>);

TEST_CASE("a permit holds its places until it is dropped", "[permit]") {
  limits_run run;
  semaphore s{run.io, {.permits = 5}};
  {
    const auto p = s.try_acquire({.tokens = 3});
    REQUIRE(p);
    CHECK(p->held() == 3);
    CHECK(*p);
    CHECK(out(s) == 3);
  }
  CHECK(out(s) == 0);
}

TEST_CASE("a permit is released once, however often that is said", "[permit]") {
  limits_run run;
  semaphore s{run.io, {.permits = 5}};
  permit p = s.try_acquire({.tokens = 3}).value();
  const auto other = s.try_acquire({.tokens = 2});
  p.release();
  p.release();
  CHECK(p.held() == 0);
  CHECK_FALSE(p);
  CHECK(out(s) == 2);
}

TEST_CASE("a permit that is moved away holds nothing, and one that is assigned to gives back what it had", "[permit]") {
  limits_run run;
  semaphore s{run.io, {.permits = 5}};
  permit p = s.try_acquire({.tokens = 3}).value();
  permit q = s.try_acquire({.tokens = 1}).value();
  q = std::move(p);
  CHECK(p.held() == 0);
  CHECK(q.held() == 3);
  CHECK(out(s) == 3);
  permit& same = q;
  q = std::move(same);
  CHECK(q.held() == 3);
  CHECK(out(s) == 3);
  q = permit{};
  CHECK(out(s) == 0);
}

TEST_CASE("a permit can be split, and each part given back on its own", "[permit]") {
  limits_run run;
  semaphore s{run.io, {.permits = 5}};
  permit p = s.try_acquire({.tokens = 5}).value();
  permit q = p.split(2);
  CHECK(p.held() == 3);
  CHECK(q.held() == 2);
  CHECK(out(s) == 5);
  p.release();
  CHECK(out(s) == 2);

  const permit all = q.split(2);
  CHECK(q.held() == 0);
  CHECK(all.held() == 2);
  CHECK(out(s) == 2);
}

TEST_CASE("a permit is split into no more than it is", "[permit]") {
  limits_run run;
  semaphore s{run.io, {.permits = 5}};
  permit p = s.try_acquire({.tokens = 3}).value();
  CHECK(refusal_of([&] { (void)p.split(0); }).find("permit.split: places is 0; allowed: 1 to held(), which is 3") == 0);
  CHECK(refusal_of([&] { (void)p.split(4); }).find("permit.split: places is 4") == 0);
  CHECK(p.held() == 3);
  permit empty;
  CHECK_FALSE(refusal_of([&] { (void)empty.split(1); }).empty());
}

TEST_CASE("a part of a permit lets a waiter go", "[permit]") {
  limits_run run;
  semaphore s{run.io, {.permits = 4}};
  permit p = s.try_acquire({.tokens = 4}).value();
  bool in = false;
  run.go([&]() -> net::awaitable<void> {
    const permit mine = co_await s.acquire({.tokens = 2});
    in = true;
  });
  run.time.poll();
  p.split(1).release();
  run.time.poll();
  CHECK_FALSE(in);
  p.split(1).release();
  run.time.poll();
  CHECK(in);
}

TEST_CASE("settling changes nothing in a semaphore", "[permit]") {
  limits_run run;
  semaphore s{run.io, {.permits = 4}};
  permit p = s.try_acquire({.tokens = 2}).value();
  p.settle(100);
  CHECK(p.held() == 2);
  CHECK(out(s) == 2);
  p.release();
  CHECK(out(s) == 0);
}

TEST_CASE("a permit may outlive its semaphore, and the context", "[permit]") {
  permit p;
  permit q;
  {
    limits_run run;
    {
      semaphore s{run.io, {.permits = 4}};
      p = s.try_acquire({.tokens = 2}).value();
      q = p.split(1);
    }
    p.release();
  }
  CHECK(q.held() == 1);
  std::thread{[r = std::move(q)]() mutable { r.release(); }}.join();
}

TEST_CASE("a permit may outlive the context, and then the semaphore", "[permit]") {
  permit p;
  {
    auto run = std::make_unique<limits_run>();
    semaphore s{run->io, {.permits = 4}};
    p = s.try_acquire({.tokens = 2}).value();
    permit second = s.try_acquire({.tokens = 1}).value();
    run.reset();
    second.release();
    CHECK_FALSE(s.try_acquire());
    CHECK(s.stats().held == 2);
    p.settle(7);
  }
  p.release();
}

TEST_CASE("a permit dropped on another thread lets a waiter go", "[permit]") {
  net::io_context io;
  semaphore s{io, {.permits = 1}};
  permit p = s.try_acquire().value();
  bool in = false;
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        const permit mine = co_await s.acquire();
        in = true;
      },
      net::detached);
  io.poll();
  std::thread{[r = std::move(p)]() mutable { r.release(); }}.join();
  io.run();
  CHECK(in);
}

TEST_CASE("permits dropped while their context goes away leave nothing behind", "[permit]") {
  for (int i = 0; i < 200; ++i) {
    auto io = std::make_unique<net::io_context>();
    permit p;
    {
      semaphore s{*io, {.permits = 2}};
      p = s.try_acquire().value();
    }
    std::thread other{[r = std::move(p)]() mutable { r.release(); }};
    io.reset();
    other.join();
  }
}
