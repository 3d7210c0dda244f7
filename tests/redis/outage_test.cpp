// What an outage of Redis leaves behind in a process that lives through it.
#include "canigo/error.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "redis/member.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "redis/stopped_clock.hpp"
#include "support/catch.hpp"
#include "support/said_by.hpp"

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
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

/// Asks for one token, and lets time pass until that has ended.
void ask_and_wait(stopped_clock& time, redis::scheduler& quota) {
  bool ended = false;
  quota.async_acquire({.deadline = time.clock.now() + 700ms}, [&](std::error_code) { ended = true; });
  time.pass_until([&] { return ended; });
}

/// How long an outage lasts.
std::vector<duration> outages() { return {3s, 8s, 13s, 60s}; }

}  // namespace

TEST_CASE("who asks after an outage is served, however long the process did nothing") {
  for (const duration outage : outages()) {
    redis_server server;
    stopped_clock time{server};
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
    stopped_clock time{server};
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
      stopped_clock time{server};
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
      idle.ask(time, 1min);  // asks first, and may be let through until it has an answer
      time.pass_until([&] { return idle.tokens.stats().available; });
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
  stopped_clock time{server};
  poor_quota q{time.io, server.url(), redis::failure_mode::open()};
  q.ask(time, 1min);
  time.pass_until([&] { return q.granted == 1; });
  time.pass(12s);
  server.start();
  for (int i = 0; i < 1000; ++i) q.ask(time);
  run_until(time.io, [&] { return q.tokens.stats().available; });
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
  auto p = run(io, m.slots.acquire());
  CHECK(p.held() == 1);
  // Each costs 16 bytes, and the script is 13000.
  const std::string stats = run(io, m.client.run("INFO", "stats")).text();
  const std::string received = "total_net_input_bytes:";
  REQUIRE(stats.find(received) != std::string::npos);
  const auto bytes = std::strtoull(stats.c_str() + stats.find(received) + received.size(), nullptr, 10);
  CHECK(bytes > 10'000);
  CHECK(bytes < 80'000);
}

TEST_CASE("who may do without Redis is let through before the time is over, however long nobody asked") {
  const bool was_busy = GENERATE(false, true);
  const bool is_killed = GENERATE(false, true);
  for (const duration patience : {300ms, 1000ms, 2000ms, 60'000ms}) {
    CAPTURE(was_busy, is_killed, patience.count());
    redis_server server;
    stopped_clock time{server};
    redis::client client{time.io, server.url()};
    redis::scheduler quota{
        client, "crm", {.rate = rate::per_day(1), .burst = 1, .on_failure = redis::failure_mode::open()}};
    std::optional<std::error_code> ec;
    const auto ask = [&](duration d) {
      ec.reset();
      quota.async_acquire({.deadline = time.clock.now() + d}, [&](std::error_code e) { ec = e; });
    };
    ask(1s);
    // No time passes meanwhile, or the line of a busy machine would count as slow.
    run_until(time.io, [&] { return quota.stats().round_trips > 0 && client.stats().in_flight == 0; });
    time.pass_until([&] { return ec.has_value(); });
    CHECK(*ec == errc::timed_out);
    is_killed ? server.kill() : server.pause();
    if (was_busy) {
      ask(1min);
      time.pass_until([&] { return ec.has_value(); });
      CHECK_FALSE(*ec);
      time.pass(20s);
    }
    const auto begin = time.clock.now();
    ask(patience);
    time.pass_until([&] { return ec.has_value(); });
    CHECK_FALSE(*ec);
    CHECK(quota.stats().granted_locally == (was_busy ? 2 : 1));
    if (was_busy || is_killed) CHECK(time.clock.now() - begin <= 300ms);
    server.resume();
  }
}

TEST_CASE("acquire_now is decided at once, with Redis away too") {
  const auto mode = GENERATE(redis::failure_mode::closed(), redis::failure_mode::open(), redis::failure_mode::local(1));
  const bool is_killed = GENERATE(false, true);
  redis_server server;
  stopped_clock time{server};
  redis::client client{time.io, server.url()};
  redis::scheduler quota{client, "crm", {.rate = rate::per_second(1000), .burst = 10, .on_failure = mode}};
  std::optional<std::error_code> ec;
  quota.async_acquire({}, [&](std::error_code e) { ec = e; });
  time.pass_until([&] { return ec.has_value(); });
  is_killed ? server.kill() : server.pause();
  const auto ask = [&]() -> net::awaitable<bool> {
    try {
      ec = std::error_code{};
      co_return co_await quota.acquire_now();
    } catch (const std::system_error& e) {
      ec = e.code();
      CHECK(said_by(e).find("unix:") != std::string::npos);
    }
    co_return false;
  };
  for (const duration silence : {0s, 20s}) {
    std::optional<bool> got;
    const auto begin = time.clock.now();
    net::co_spawn(time.io, ask(), [&](std::exception_ptr, bool b) { got = b; });
    time.pass_until([&] { return got.has_value(); });
    CHECK(time.clock.now() - begin <= 600ms);
    if (mode.what() == redis::failure_mode::kind::closed) CHECK(*ec == errc::store_unavailable);
    if (mode.what() == redis::failure_mode::kind::open) CHECK(*got);
    time.pass(silence + 20s);
  }
  server.resume();
}

TEST_CASE("whose time is over before Redis has said a word is told that it did not, and why") {
  const bool is_killed = GENERATE(false, true);
  redis_server server;
  stopped_clock time{server};
  member m{time.io, server.url(), {.permits = 1, .quarantine = false}};
  run(time.io, m.slots.acquire()).release();
  run_until(time.io, [&] { return m.slots.stats().held_by_all == 0 && m.client.stats().in_flight == 0; });
  is_killed ? server.kill() : server.pause();
  std::string said;
  const auto ask = [&]() -> net::awaitable<bool> {
    try {
      (void)co_await m.slots.acquire({.deadline = time.clock.now() + 50ms});
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::store_unavailable);
      said = said_by(e);
    }
    co_return true;
  };
  std::optional<bool> ended;
  net::co_spawn(time.io, ask(), [&](std::exception_ptr, bool b) { ended = b; });
  time.pass_until([&] { return ended.has_value(); });
  CHECK(said.find(server.url()) != std::string::npos);
  CHECK(said.find(is_killed ? "No such file" : "no answer") != std::string::npos);
  server.resume();
}

TEST_CASE("the loop ends soon after the last waiter in an outage") {
  redis_server server;
  stopped_clock time;  // a subscription lingers in real time
  const bool is_killed = GENERATE(false, true);
  const auto mode = GENERATE(redis::failure_mode::closed(), redis::failure_mode::open());
  redis::client client{time.io, server.url()};
  redis::scheduler quota{client, "crm", {.rate = rate::per_second(1000), .on_failure = mode}};
  ask_and_wait(time, quota);
  is_killed ? server.kill() : server.pause();
  for (int i = 0; i < 3; ++i) ask_and_wait(time, quota);
  const auto begin = time.clock.now();
  time.pass_until([&] {
    time.io.restart();
    time.io.poll();
    return time.io.stopped() && time.clock.next() == canigo::time_point::max();
  });
  CHECK(time.clock.now() - begin <= 5s);
  server.resume();
}
