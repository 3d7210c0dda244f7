// What an outage of Redis leaves behind in a process that lives through it.
#include "canigo/error.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "catch.hpp"
#include "redis_member.hpp"
#include "redis_run.hpp"
#include "redis_server.hpp"
#include "redis_stopped_clock.hpp"

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

using canigo::duration;

/// A quota as one process has it. Its bucket never fills, so nothing is granted by Redis.
struct poor_quota {
  poor_quota(net::io_context& io, const std::string& url, redis::failure_mode mode)
      : client{io, url}, tokens{client, "crm", {.rate = rate::per_day(1), .on_failure = mode}} {}

  /// Asks for one token, and does not wait for long.
  void ask(stopped_clock& time, duration patience = 50ms) {
    tokens.async_acquire({.deadline = time.clock.now() + patience}, [n = told](std::error_code ec) {
      n->granted += ec ? 0 : 1;
      n->refused_again += ec && n->granted > 0 ? 1 : 0;
    });
  }

  struct counts {
    int granted = 0;
    int refused_again = 0;  // after one was granted
  };

  redis::client client;
  redis::scheduler tokens;
  std::shared_ptr<counts> told = std::make_shared<counts>();  // what ends with the quota is told after it
  int& granted = told->granted;
  int& refused_again = told->refused_again;
};

/// How long an outage lasts.
std::vector<duration> outages() { return {3s, 8s, 13s, 60s}; }

}  // namespace

TEST_CASE("who asks after an outage is served, however long the process did nothing") {
  for (const duration outage : outages()) {
    redis_server server;
    stopped_clock time;
    member m{time.io, server.url(), {.permits = 1, .quarantine = false}};
    server.kill();
    waiting failed{m.slots, {.deadline = time.clock.now() + 1s}};
    time.pass_until([&] { return failed.ended(); });
    CHECK(*failed.ec == errc::store_unavailable);
    time.pass(outage);
    server.start();
    time.pass(12s);
    const auto asked = time.clock.now();
    waiting w{m.slots, {.deadline = asked + 2s}};
    time.pass_until([&] { return w.ended(); });
    CHECK_FALSE(*w.ec);
    CHECK(m.slots.stats().available);
  }
}

TEST_CASE("who waits and who asks through an outage is served within 2 s of its end") {
  for (const duration outage : outages()) {
    redis_server server;
    stopped_clock time;
    member m{time.io, server.url(), {.permits = 1000, .give_up = 5min, .quarantine = false}};
    member busy{time.io, server.url(), {.permits = 1000, .quarantine = false}};
    server.kill();
    waiting w{m.slots, {}};
    std::vector<std::unique_ptr<waiting>> others;
    for (duration passed{}; passed < outage; passed += 200ms) {
      others.push_back(std::make_unique<waiting>(busy.slots, canigo::request{}));
      time.pass(200ms);
    }
    server.start();
    const auto back = time.clock.now();
    time.pass_until([&] { return w.ended(); });
    CHECK_FALSE(*w.ec);
    for (const auto& other : others) time.pass_until([&] { return other->ended(); });
    CHECK_FALSE(*others.back()->ec);
    CHECK(time.clock.now() - back <= 2s);
  }
}

TEST_CASE("only who has waited so long gives up") {
  stopped_clock time;
  member m{time.io, "unix:/nonexistent/redis.sock", {.permits = 1, .give_up = 10s}};
  waiting first{m.slots, {}};
  time.pass(8s);
  waiting second{m.slots, {}};
  const auto begin = time.clock.now();
  time.pass_until([&] { return first.ended(); });
  CHECK(*first.ec == errc::store_unavailable);
  CHECK(time.clock.now() - begin <= 3s);
  time.pass(6s);
  CHECK_FALSE(second.ended());
  time.pass_until([&] { return second.ended(); });
  CHECK(*second.ec == errc::store_unavailable);
  CHECK(time.clock.now() - begin >= 10s);
}

TEST_CASE("what is open or has a share without Redis is neither once it is back") {
  for (const auto mode : {redis::failure_mode::open(), redis::failure_mode::local(1)}) {
    for (const duration outage : outages()) {
      redis_server server;
      stopped_clock time;
      poor_quota busy{time.io, server.url(), mode};
      poor_quota idle{time.io, server.url(), mode};
      server.kill();
      idle.ask(time, 1min);
      time.pass(50ms);
      for (duration passed{}; passed < outage; passed += 100ms) {
        busy.ask(time);
        time.pass(100ms);
      }
      if (mode.what() == redis::failure_mode::kind::open) {
        CHECK(busy.granted > 1);
        CHECK(busy.refused_again == 0);  // to ask Redis again makes nobody wait
      } else {
        CHECK(busy.granted <= 1);
      }
      server.start();
      const auto back = time.clock.now();
      while (!busy.tokens.stats().available && time.clock.now() - back < 1min) {
        busy.ask(time);
        time.pass(20ms);
      }
      CHECK(time.clock.now() - back <= 2s);
      time.pass(100ms);
      const auto before = busy.granted + idle.granted;
      for (int i = 0; i < 1000; ++i) {
        busy.ask(time);
        idle.ask(time);
      }
      time.pass(200ms);
      CHECK(busy.granted + idle.granted == before);
    }
  }
}

TEST_CASE("a quota that is open without Redis counts again, in a process that was started before Redis") {
  redis_server server;
  server.kill();
  stopped_clock time;
  poor_quota q{time.io, server.url(), redis::failure_mode::open()};
  q.ask(time, 1min);
  time.pass_until([&] { return q.granted == 1; });
  time.pass(12s);
  server.start();
  for (int i = 0; i < 1000; ++i) q.ask(time);
  time.pass(100ms);
  CHECK(q.granted == 1);
}

TEST_CASE("nobody asks a Redis that is down for nobody") {
  drained io;
  redis::client client{io, "unix:/nonexistent/redis.sock"};
  redis::semaphore slots{client, "crm", {.permits = 1, .give_up = 50ms}};
  CHECK(error_of(io, slots.acquire()) == errc::store_unavailable);
  io.restart();
  io.run();  // comes to an end
  CHECK_FALSE(slots.stats().available);
}

TEST_CASE("those who gave up in an outage are not all told of when it is over") {
  redis_server server;
  net::io_context io;
  member m{io, server.url(), {.permits = 1, .lease = 60ms, .quarantine = false}};
  server.kill();
  std::size_t given_up = 0;
  while (given_up < 6000) {
    const auto failed = m.slots.stats().failed_calls;
    std::vector<std::unique_ptr<waiting>> some;
    for (int i = 0; i < 1000; ++i) some.push_back(std::make_unique<waiting>(m.slots, canigo::request{}));
    run_until(io, [&] { return m.slots.stats().failed_calls > failed; });
    for (const auto& w : some) w->cancel.emit(net::cancellation_type::total);
    run_until(io, [&] { return std::all_of(some.begin(), some.end(), [](const auto& w) { return w->ended(); }); });
    given_up += some.size();
  }
  server.start();
  auto p = run(io, m.slots.acquire(0));
  CHECK(p.held() == 1);
  // Each costs 16 bytes, and the script is 13000.
  const std::string stats = run(io, m.client.run("INFO", "stats")).text();
  const std::string received = "total_net_input_bytes:";
  REQUIRE(stats.find(received) != std::string::npos);
  const auto bytes = std::strtoull(stats.c_str() + stats.find(received) + received.size(), nullptr, 10);
  CHECK(bytes > 10'000);
  CHECK(bytes < 80'000);
}
