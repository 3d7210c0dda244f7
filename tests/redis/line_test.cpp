// A line to Redis on which each answer takes long, and one that says nothing.
#include "canigo/error.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "../lib/redis/round_trips.hpp"
#include "redis/member.hpp"
#include "redis/proxy.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "redis/stopped_clock.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

using canigo::duration;
using canigo::time_point;
using redis::detail::round_trips;

/// Real time, a Redis, and a line to it on which an answer takes so long.
template <class Clock>
struct slow_line {
  explicit slow_line(duration round_trip)
      : line{time.io, server.folder() / "line.sock", server.path()}, client{time.io, line.url()} {
    line.delay(round_trip / 2);
  }
  ~slow_line() {
    line.close();
    time.io.restart();
    time.io.poll();
  }
  redis_server server;
  Clock time;
  proxy line;
  redis::client client;
};

struct real_time {
  drained io;
};

/// Time goes by faster than it does for Redis. It stands still until Redis has answered, so that it is the line that
/// takes long, however slow the machine is.
template <class Done>
void pass_fast_until(slow_line<stopped_clock>& there, Done done) {
  const auto give_up = steady::now() + 60s;
  while (!done() && steady::now() < give_up) {
    there.time.io.restart();
    while (there.time.io.run_one_for(1ms) != 0 || (there.line.awaits_redis() && steady::now() < give_up)) {
    }
    there.time.advance(20ms);
  }
  REQUIRE(done());
}

/// What an acquire ended with; filled when it did.
using outcome = std::shared_ptr<std::optional<std::error_code>>;

outcome ask(redis::scheduler& s, canigo::request r) {
  auto o = std::make_shared<std::optional<std::error_code>>();
  s.async_acquire(r, [o](std::error_code ec) { *o = ec; });
  return o;
}

}  // namespace

TEST_CASE("a line takes as long as the shortest of its last flights, and is late after three times that") {
  const time_point t{1h};
  round_trips line;
  CHECK(line.allowance() == duration::zero());
  line.begin(100ms);
  CHECK(line.shortest() == 100ms);
  CHECK(line.allowance() == 300ms);
  line.add(t, t + 2s);       // a server that stood still
  line.add(t + 1s, t + 2s);  // one of the same flight
  CHECK(line.shortest() == 100ms);
  line.add(t + 2s, t + 3s);
  line.add(t + 3s, t + 4s);
  CHECK(line.shortest() == 100ms);
  line.add(t + 4s, t + 5s);
  CHECK(line.shortest() == 1s);
  line.add(t + 5s, t + 5s + 1ms);
  CHECK(line.shortest() == 1ms);
  line.begin(2s);
  CHECK(line.allowance() == 6s);
}

TEST_CASE("a connection with a round trip of more than a second is made again when it breaks") {
  const auto mode = GENERATE(redis::failure_mode::closed(), redis::failure_mode::open());
  for (const duration round_trip : {1200ms, 1900ms}) {
    CAPTURE(round_trip.count());
    slow_line<stopped_clock> there{round_trip};
    auto& time = there.time;
    redis::scheduler quota{there.client, "crm", {.rate = rate::per_second(1000), .on_failure = mode, .give_up = 1h}};
    for (int breaks = 0; breaks < 2; ++breaks) {
      const auto first = ask(quota, {});
      pass_fast_until(there, [&] { return first->has_value() && quota.stats().available; });
      CHECK_FALSE(**first);
      // Nothing is let through for that the line is slow.
      const auto locally = quota.stats().granted_locally;
      const auto failed = quota.stats().failed_calls;
      for (int i = 0; i < 3; ++i) {
        const auto next = ask(quota, {});
        pass_fast_until(there, [&] { return next->has_value(); });
        CHECK_FALSE(**next);
      }
      CHECK(quota.stats().granted_locally == locally);
      CHECK(quota.stats().failed_calls == failed);
      there.line.cut_now();
      time.pass(100ms);
    }
    CHECK(there.client.stats().connects <= 3);
  }
}

TEST_CASE("a lease is kept over a slow line, and lost by none that stands it [realtime]", "[realtime]") {
  slow_line<real_time> there{600ms};
  redis::semaphore slots{there.client, "crm", {.permits = 1, .lease = 10s, .quarantine = false}};
  auto p = run(there.time.io, slots.acquire());
  CHECK(p.held() == 1);
  there.line.cut_now();
  const auto calls = slots.stats().round_trips;
  run_until(there.time.io, [&] { return slots.stats().round_trips > calls + 1; });
  CHECK(p.held() == 1);
  CHECK(slots.stats().last_error.empty());
}

TEST_CASE("a lease that does not stand the line is said to be one [realtime]", "[realtime]") {
  slow_line<real_time> there{600ms};
  redis::semaphore slots{there.client, "crm", {.permits = 1, .lease = 1s, .give_up = 3s, .quarantine = false}};
  run_until(there.time.io, [&] {
    if (there.client.stats().waiting + there.client.stats().in_flight == 0) {
      slots.async_acquire({}, [](std::error_code, redis::permit) {});
    }
    return slots.stats().last_error.find("a lease of 1s stands 450ms at most") != std::string::npos;
  });
}

TEST_CASE("a call that is late takes no answer from the others on its connection") {
  redis_server server;
  stopped_clock time{server};
  redis::client client{time.io, server.url()};
  redis::scheduler quota{client, "crm", {.rate = rate::per_second(1000)}};
  const auto first = ask(quota, {});
  time.pass_until([&] { return first->has_value(); });
  server.pause();
  std::optional<std::error_code> other;
  client.async_run(redis::command{"PING"}, [&](std::error_code ec, const redis::reply&) { other = ec; });
  const auto failed = quota.stats().failed_calls;
  const auto late = ask(quota, {});
  time.pass_until([&] { return quota.stats().failed_calls > failed; });
  CHECK_FALSE(other.has_value());
  server.resume();
  run_until(time.io, [&] { return other.has_value(); });
  CHECK_FALSE(*other);
  time.pass_until([&] { return late->has_value(); });
  CHECK_FALSE(**late);
  CHECK(client.stats().connects == 1);
}

TEST_CASE("a connection that says nothing is given up, though one waits on it for ever") {
  redis_server server;
  stopped_clock time{server};
  redis::client client{time.io, server.url()};
  redis::scheduler quota{client, "crm", {.rate = rate::per_second(1000), .give_up = 1h}};
  const auto first = ask(quota, {});
  time.pass_until([&] { return first->has_value(); });
  server.pause();
  std::optional<std::error_code> other;
  const auto ping = redis::command{"PING"}.with_timeout(duration::max());
  client.async_run(ping, [&](std::error_code ec, const redis::reply&) { other = ec; });
  const auto late = ask(quota, {});
  const auto begin = time.clock.now();
  time.pass_until([&] { return other.has_value(); });
  CHECK(*other == redis::error::connection_lost);
  CHECK(time.clock.now() - begin <= 8s);
  server.resume();
  time.pass_until([&] { return late->has_value(); });
  CHECK_FALSE(**late);
}
