// Permits that are kept and tokens that are taken ahead, where the user chose a horizon.
#include "canigo/error.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "redis/member.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

constexpr auto long_lease = 60s;
const redis::semaphore_options keeping{
    .permits = 2, .lease = long_lease, .priorities = 2, .horizon = long_lease, .quarantine = false};
const redis::scheduler_options ahead{.rate = rate::per_minute(60), .burst = 1000, .horizon = 1min};

}  // namespace

TEST_CASE("a permit that is kept is had without a round trip") {
  redis_server server;
  drained io;
  member a{io, server.url(), keeping};
  run(io, a.slots.acquire()).release();
  const auto calls = a.slots.stats().round_trips;
  CHECK(a.slots.stats().idle == 1);
  CHECK(a.slots.stats().held == 0);
  for (int i = 0; i < 10; ++i) {
    auto p = run(io, a.slots.acquire());
    CHECK(p.held() == 1);
    CHECK(p.token() > 0);
    CHECK_FALSE(a.slots.try_acquire().has_value());
  }
  auto p = a.slots.try_acquire();
  REQUIRE(p.has_value());
  CHECK(p->held() == 1);
  CHECK(a.slots.stats().round_trips <= calls + 1);  // one when it has begun to listen
  CHECK(a.slots.stats().granted_ahead == 11);
  CHECK(a.slots.stats().granted == 12);
  // What is not kept is asked for as ever.
  const auto second = run(io, a.slots.acquire());
  CHECK(second.held() == 1);
  CHECK(a.slots.stats().round_trips > calls);
}

TEST_CASE("what is kept counts as held, and goes to whoever waits elsewhere") {
  auto [server, io, a, b] = two_members<drained>{keeping};
  auto one = run(io, a.slots.acquire());
  auto two = run(io, a.slots.acquire());
  one.release();
  two.release();
  CHECK(a.slots.stats().idle == 2);
  // It would be half a minute before a process asks by itself.
  const auto first = run(io, b.slots.acquire({.tokens = 2}));
  CHECK(first.held() == 2);
  CHECK(a.slots.stats().idle == 0);
}

TEST_CASE("a permit is not kept while somebody waits elsewhere") {
  auto [server, io, a, b] = two_members<drained>{keeping};
  auto one = run(io, a.slots.acquire({.tokens = 2}));
  waiting w{b.slots, {}};
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 1 && a.slots.stats().waiting_of_all == 1; });
  one.release();
  run_until(io, [&] { return w.ended(); });
  CHECK(w.p.held() == 1);
  CHECK(a.slots.stats().idle == 0);
}

TEST_CASE("a permit is not kept while somebody waits here, also where Redis has not heard of it") {
  redis_server server;
  drained io;
  redis::semaphore_options o = keeping;
  o.permits = 1;
  member a{io, server.url(), o};
  auto p = run(io, a.slots.acquire());
  waiting next{a.slots, {}};
  p.release();
  CHECK(a.slots.stats().idle == 0);
  run_until(io, [&] { return next.ended(); });
  CHECK(next.p.held() == 1);
}

TEST_CASE("a permit that is kept goes back when the horizon is over [realtime]", "[realtime]") {
  redis_server server;
  drained io;
  redis::semaphore_options o = keeping;
  o.horizon = 100ms;
  member a{io, server.url(), o};
  run(io, a.slots.acquire()).release();
  CHECK(a.slots.stats().idle == 1);
  // With nothing to hold the loop ends by itself.
  io.restart();
  io.run();
  CHECK(a.slots.stats().idle == 0);
  CHECK(a.slots.stats().held_by_all == 0);
}

TEST_CASE("what is kept holds no loop once the limit has stopped") {
  redis_server server;
  drained io;
  member a{io, server.url(), keeping};
  run(io, a.slots.acquire()).release();
  CHECK(a.slots.stats().idle == 1);
  a.slots.stop();
  run_until(io, [&] { return io.stopped(); });
  CHECK(a.slots.stats().idle == 0);
}

TEST_CASE("what is kept is lost with the lease, and never used after it [realtime]", "[realtime]") {
  redis_server server;
  drained io;
  member a{io, server.url(), {.permits = 1, .lease = 200ms, .horizon = 200ms, .quarantine = false}};
  run(io, a.slots.acquire()).release();
  server.pause();
  const auto begin = steady::now();
  while (steady::now() - begin < 220ms) run_for(io, 10ms);
  CHECK_FALSE(a.slots.try_acquire().has_value());
  CHECK(a.slots.stats().idle == 0);
  server.resume();
}

TEST_CASE("what is kept goes to nobody before those who wait, nor during a pause, nor too late") {
  redis_server server;
  drained io;
  member a{io, server.url(), keeping};
  auto one = run(io, a.slots.acquire());
  run(io, a.slots.acquire()).release();
  CHECK(a.slots.stats().idle == 1);
  CHECK_FALSE(a.slots.try_acquire({.deadline = canigo::time_point::min()}).has_value());
  waiting heavy{a.slots, {.tokens = 2}};
  CHECK_FALSE(a.slots.try_acquire().has_value());
  heavy.cancel.emit(net::cancellation_type::total);
  run_until(io, [&] { return heavy.ended(); });
  a.slots.pause();
  CHECK_FALSE(a.slots.try_acquire().has_value());
  a.slots.resume();
  one.release();
  CHECK(run(io, a.slots.acquire({.tokens = 2})).held() == 2);
}

TEST_CASE("stopping gives back what is kept") {
  auto [server, io, a, b] = two_members<drained>{keeping};
  run(io, a.slots.acquire({.tokens = 2})).release();
  a.slots.stop();
  CHECK(a.slots.stats().idle == 0);
  CHECK_FALSE(a.slots.try_acquire().has_value());
  CHECK(run(io, b.slots.acquire({.tokens = 2})).held() == 2);
}

TEST_CASE("tokens are taken ahead, twice as many as were used up, and used without a round trip") {
  redis_server server;
  drained io;
  redis::client client{io, server.url()};
  redis::scheduler s{client, "crm", ahead};
  s.refund(100);
  const auto one = [&]() -> net::awaitable<int> {
    co_await s.acquire(0);
    co_return 1;
  };
  for (int i = 0; i < 40; ++i) run(io, one());
  CHECK(s.stats().granted == 40);
  CHECK(s.stats().granted_ahead >= 30);
  CHECK(s.stats().round_trips <= 10);
  CHECK(s.stats().idle > 0);
  CHECK(s.try_acquire());
  CHECK(s.estimate({}) == 0s);
}

TEST_CASE("each time that all are used up, twice as many are taken ahead, up to what the horizon brings") {
  redis_server server;
  drained io;
  redis::client client{io, server.url()};
  redis::scheduler s{client, "crm", ahead};
  s.refund(300);
  std::vector<std::uint64_t> taken;
  for (int i = 0; i < 140; ++i) {
    const std::uint64_t before = s.stats().idle;
    CHECK(run(io, s.acquire_now()));
    if (s.stats().idle > before) taken.push_back(s.stats().idle);
  }
  CHECK(taken == std::vector<std::uint64_t>{1, 2, 4, 8, 16, 32, 60, 60});
}

TEST_CASE("an estimate counts what was taken ahead, though nothing is left in Redis") {
  redis_server server;
  drained io;
  redis::client client{io, server.url()};
  redis::scheduler_options o = ahead;
  o.rate = rate::per_hour(60);
  redis::scheduler s{client, "crm", o};
  CHECK(s.estimate({.tokens = 2}) == 0s);  // nothing is known yet
  s.refund(2);
  const auto one = [&]() -> net::awaitable<int> {
    co_await s.acquire(0);
    co_return 1;
  };
  run(io, one());
  REQUIRE(s.stats().idle == 1);
  CHECK(s.estimate({}) == 0s);
  CHECK(s.estimate({.tokens = 2}) > 30s);
  CHECK(s.try_acquire());
  CHECK(s.estimate({}) > 30s);
}

TEST_CASE("tokens that were taken ahead go back when somebody waits for them elsewhere") {
  redis_server server;
  drained io;
  redis::client one{io, server.url()};
  redis::client two{io, server.url()};
  redis::scheduler_options o = ahead;
  o.rate = rate::per_hour(60);  // no more than those that are there
  redis::scheduler a{one, "crm", o};
  redis::scheduler b{two, "crm", o};
  a.refund(4);
  run_until(io, [&] { return a.stats().round_trips == 1; });
  while (a.stats().idle == 0) {
    CHECK(run(io, a.acquire_now()));
  }
  const std::uint64_t idle = a.stats().idle;
  std::optional<std::error_code> ended;
  b.async_acquire({.tokens = 4 - a.stats().granted}, [&](std::error_code ec) { ended = ec; });
  run_until(io, [&] { return ended.has_value(); });
  CHECK_FALSE(*ended);
  CHECK(idle > 0);
  CHECK(a.stats().idle == 0);
}

TEST_CASE("tokens that were taken ahead and not used go back when the horizon is over [realtime]", "[realtime]") {
  redis_server server;
  drained io;
  redis::client client{io, server.url()};
  redis::scheduler_options o = ahead;
  o.rate = rate::per_hour(60);
  o.horizon = 100ms;
  redis::scheduler s{client, "crm", o};
  s.refund(3);
  const auto one = [&]() -> net::awaitable<int> {
    co_await s.acquire(0);
    co_return 1;
  };
  run(io, one());
  const std::uint64_t idle = s.stats().idle;
  io.restart();
  io.run();
  CHECK(s.stats().idle == 0);
  int left = 0;
  while (run(io, s.acquire_now())) ++left;
  CHECK(left == 2);
  CHECK(idle == 1);
}

TEST_CASE("a pause gives back what was taken ahead here") {
  redis_server server;
  drained io;
  redis::client client{io, server.url()};
  redis::scheduler s{client, "crm", ahead};
  s.refund(10);
  const auto one = [&]() -> net::awaitable<int> {
    co_await s.acquire(0);
    co_return 1;
  };
  run(io, one());
  CHECK(s.stats().idle > 0);
  s.pause();
  CHECK(s.stats().idle == 0);
  CHECK_FALSE(s.try_acquire());
  CHECK(s.estimate({}) > 1h);
}

TEST_CASE("a horizon is within bounds") {
  drained io;
  redis::client client{io, "unix:/nonexistent/redis.sock"};
  redis::semaphore_options o = keeping;
  o.horizon = o.lease + 1ns;
  CHECK_THROWS_AS((redis::semaphore{client, "crm", o}), std::system_error);
  redis::scheduler_options q = ahead;
  q.horizon = -1ns;
  CHECK_THROWS_AS((redis::scheduler{client, "crm", q}), std::system_error);
}
