#include "canigo/redis/semaphore.hpp"

#include "canigo/error.hpp"
#include "canigo/timeout.hpp"

#include "redis/member.hpp"
#include "redis/run.hpp"
#include "redis/scripted.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/cancellation_signal.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

/// How many the server has got from its clients, all of them; those of scripts are not among them.
std::int64_t commands_from_clients(net::io_context& io, redis::client& c) {
  const std::string info = run(io, c.run("INFO", "commandstats")).text();
  std::int64_t count = 0;
  for (const std::string name : {"eval", "evalsha", "script|load", "subscribe", "unsubscribe", "info", "ping"}) {
    const std::string key = "cmdstat_" + name + ":calls=";
    const auto at = info.find(key);
    if (at != std::string::npos) count += std::stoll(info.substr(at + key.size(), 20));
  }
  return count;
}

}  // namespace

TEST_CASE("permits are shared, in order of class and arrival, and handed on by push [realtime]", "[realtime]") {
  auto [server, io, a, b] = two_members<>{{.permits = 2, .lease = 60s, .priorities = 3, .quarantine = false}};
  auto p = run(io, a.slots.acquire());
  auto q = run(io, b.slots.acquire());
  CHECK(p.token() < q.token());
  CHECK(p.held() == 1);
  waiting low{a.slots, {.priority = 2}};
  run_until(io, [&] { return a.slots.stats().waiting_of_all == 1; });
  waiting first{b.slots, {.priority = 1}};
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 2; });
  waiting second{a.slots, {.priority = 1}};
  run_until(io, [&] { return a.slots.stats().waiting_of_all == 3; });
  const auto begin = steady::now();
  CHECK(p.release());
  run_until(io, [&] { return first.ended(); });
  CHECK(steady::now() - begin < 15s);  // by a message: to look for it takes a third of a lease
  CHECK_FALSE(second.ended());
  CHECK(first.p.release());
  run_until(io, [&] { return second.ended(); });
  CHECK_FALSE(low.ended());
  q.release();
  run_until(io, [&] { return low.ended(); });
  CHECK_FALSE(*low.ec);
  CHECK(low.p.token() > second.p.token());
}

TEST_CASE("D9 an uncontended acquire is one command, and so is a release, however many take part [realtime]",
          "[realtime]") {
  redis_server server;
  net::io_context io;
  const redis::semaphore_options o{.permits = 20, .lease = 1h, .quarantine = false};
  member a{io, server.url(), o};
  std::vector<std::unique_ptr<member>> others;
  std::vector<redis::permit> held;
  const auto count = [&] {
    const auto before = commands_from_clients(io, a.client);
    const auto trips = a.slots.stats().round_trips;
    for (int i = 0; i < 50; ++i) run(io, a.slots.acquire()).release();
    run(io, a.client.run("PING"));
    CHECK(a.slots.stats().round_trips - trips == 100);
    return commands_from_clients(io, a.client) - before;
  };
  run(io, a.slots.acquire()).release();
  const auto alone = count();
  CHECK(alone == 50 * 2 + 2);  // the PING, and the question itself
  for (int i = 0; i < 10; ++i) {
    others.push_back(std::make_unique<member>(io, server.url(), o));
    held.push_back(run(io, others.back()->slots.acquire()));
  }
  CHECK(count() == alone);
}

TEST_CASE("weights: a heavy one is not overtaken, and the rest fits [realtime]", "[realtime]") {
  auto [server, io, a, b] = two_members<>{{.permits = 4, .lease = 1500ms, .priorities = 1, .quarantine = false}};
  auto p = run(io, a.slots.acquire({.tokens = 3}));
  CHECK(p.held() == 3);
  waiting heavy{b.slots, {.tokens = 2}};
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 1; });
  waiting light{a.slots, {.tokens = 1}};
  run_until(io, [&] { return a.slots.stats().waiting_of_all == 2; });
  CHECK_FALSE(light.ended());
  p.release();
  run_until(io, [&] { return heavy.ended() && light.ended(); });
  CHECK(heavy.p.held() == 2);
}

TEST_CASE("D2 one release admits exactly one [realtime]", "[realtime]") {
  auto [server, io, a, b] = two_members<>{{.permits = 2, .lease = 1500ms, .quarantine = false}};
  auto p = run(io, a.slots.acquire());
  auto q = run(io, a.slots.acquire());
  std::vector<std::unique_ptr<waiting>> contenders;
  for (int i = 0; i < 4; ++i)
    contenders.push_back(std::make_unique<waiting>(i % 2 ? a.slots : b.slots, canigo::request{}));
  const auto admitted = [&] {
    return std::count_if(contenders.begin(), contenders.end(), [](const auto& w) { return w->ended(); });
  };
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 4; });
  // Longer than a lease: they are renewed.
  const auto until = steady::now() + 2s;
  run_until(io, [&] { return steady::now() > until; });
  CHECK(admitted() == 0);
  CHECK(p.held() == 1);
  p.release();
  run_until(io, [&] { return admitted() == 1; });
  const auto later = steady::now() + 200ms;
  run_until(io, [&] { return steady::now() > later; });
  CHECK(admitted() == 1);
}

TEST_CASE("D8 a waiter that is cancelled leaves nothing behind [realtime]", "[realtime]") {
  redis_server server;
  net::io_context io;
  const redis::semaphore_options o{.permits = 1, .lease = 60s, .quarantine = false};
  member a{io, server.url(), o};
  auto p = run(io, a.slots.acquire());
  waiting w{a.slots, {}};
  run_until(io, [&] { return a.slots.stats().waiting_of_all == 1; });
  const auto begin = steady::now();
  w.cancel.emit(net::cancellation_type::total);
  run_until(io, [&] { return w.ended(); });
  CHECK(w.ec == net::error::operation_aborted);
  CHECK(steady::now() - begin < 15s);  // with no word from Redis, and no lease that ends
  run_until(io, [&] { return a.slots.stats().waiting_of_all == 0; });
  CHECK(run(io, a.client.run("EXISTS", "{canigo:default:crm}:s:q")).integer() == 0);
  p.release();
  auto again = run(io, a.slots.acquire());
  CHECK(again.held() == 1);
}

TEST_CASE("D7 a permit that is released twice, or lost, frees nobody's place [realtime]", "[realtime]") {
  auto [server, io, a, b] = two_members<>{{.permits = 1, .lease = 400ms, .quarantine = false}};
  auto p = run(io, a.slots.acquire());
  CHECK(p.release());
  CHECK_FALSE(p.release());
  CHECK(p.held() == 0);
  p = run(io, a.slots.acquire());
  // a is held up beyond its lease, as by a debugger.
  waiting next{b.slots, {}};
  std::this_thread::sleep_for(600ms);
  run_until(io, [&] { return next.ended(); });
  CHECK(p.held() == 0);
  CHECK_FALSE(p.release());
  CHECK(a.slots.stats().lost_leases == 1);
  CHECK(next.p.held() == 1);
  waiting third{a.slots, {}};
  run_until(io, [&] { return a.slots.stats().waiting_of_all == 1; });
  CHECK_FALSE(third.ended());
}

TEST_CASE("D5 a holder is told and cancelled before its lease ends in Redis [realtime]", "[realtime]") {
  redis_server server;
  net::io_context io;
  const redis::semaphore_options o{.permits = 1, .lease = 1500ms, .quarantine = false};
  member a{io, server.url(), o};
  auto p = run(io, a.slots.acquire());
  std::optional<std::error_code> end;
  bool told = false;
  const auto work = [&]() -> net::awaitable<void> {
    auto job = canigo::sleep_for(10s);
    try {
      co_await p.wrap(std::move(job));
    } catch (const std::system_error& e) {
      end = e.code();
    }
  };
  const auto watch = [&]() -> net::awaitable<void> {
    co_await p.lost();
    told = true;
  };
  net::co_spawn(io, work(), net::detached);
  net::co_spawn(io, watch(), net::detached);
  // For longer than a lease all is well.
  const auto until = steady::now() + 2s;
  run_until(io, [&] { return steady::now() > until; });
  CHECK_FALSE(end);
  CHECK_FALSE(told);
  server.pause();
  run_until(io, [&] { return end && told; });
  CHECK(end == errc::lease_lost);
  CHECK(p.held() == 0);
  server.resume();
}

TEST_CASE("D6 without Redis nobody is let in, and waiters end in time [realtime]", "[realtime]") {
  net::io_context io;
  const auto nobody_is_let_in = [&](const std::string& url) {
    redis::client client{io, url, {.connect_timeout = 100ms}};
    redis::semaphore slots{client, "crm", {.permits = 1, .lease = 100ms, .give_up = 1s}};
    const auto begin = steady::now();
    waiting w{slots, {}};
    waiting soon{slots, {.deadline = begin + 50ms}};
    run_until(io, [&] { return soon.ended(); });
    CHECK(soon.ec == errc::store_unavailable);
    CHECK(soon.at - begin >= 50ms);
    CHECK_FALSE(w.ended());
    run_until(io, [&] { return w.ended(); });
    CHECK(w.ec == errc::store_unavailable);
    CHECK(w.at - begin >= 1s);
    CHECK(slots.stats().granted == 0);
    CHECK_FALSE(slots.stats().available);
  };
  SECTION("nothing there") { nobody_is_let_in("unix:/nonexistent/redis.sock"); }
  SECTION("half open: it accepts, and never answers") {
    scripted_server server{[](peer& p) -> net::awaitable<void> { co_await p.linger(); }};
    nobody_is_let_in(url_of(server));
    CHECK(server.connections() > 0);
  }
  SECTION("half open once it is logged in") {
    scripted_server server{[](peer& p) -> net::awaitable<void> {
      co_await greet(p);
      co_await p.linger();
    }};
    nobody_is_let_in(url_of(server));
  }
  SECTION("it answers everything with an error") {
    scripted_server server{[](peer& p) -> net::awaitable<void> {
      for (;;) {
        std::array<char, 4096> said;
        const auto n = co_await p.socket.async_read_some(net::buffer(said), net::use_awaitable);
        // One for each command, or the client would wait for the rest.
        std::string errors;
        for (std::size_t i = 0; i < n; ++i) errors += said[i] == '*' ? "-ERR out of order\r\n" : "";
        co_await p.send(errors);
      }
    }};
    nobody_is_let_in(url_of(server));
  }
  SECTION("it answers every command with an error once it is logged in") {
    scripted_server server{[](peer& p) -> net::awaitable<void> {
      co_await greet(p);
      for (;;) {
        std::array<char, 16384> more;
        co_await p.socket.async_read_some(net::buffer(more), net::use_awaitable);
        co_await p.send("-MISCONF can't write to the disk\r\n");
      }
    }};
    nobody_is_let_in(url_of(server));
  }
  SECTION("it goes away, and comes back") {
    redis_server server;
    member a{io, server.url(), {.permits = 1, .lease = 100ms, .give_up = 10s}};
    run(io, a.slots.acquire()).release();
    server.kill();
    waiting w{a.slots, {}};
    const auto until = steady::now() + 300ms;
    run_until(io, [&] { return steady::now() > until; });
    CHECK_FALSE(w.ended());
    CHECK_FALSE(a.slots.stats().available);
    server.start();
    run_until(io, [&] { return w.ended(); });
    CHECK(w.p.held() == 1);
  }
}

TEST_CASE("a restart without its data, or a flush, lets nobody in for one lease [realtime]", "[realtime]") {
  auto [server, io, a, b] = two_members<>{{.permits = 1, .lease = 1500ms}};
  const auto first = steady::now();
  auto p = run(io, a.slots.acquire());
  CHECK(steady::now() - first > 1s);  // a Redis that knows nothing may have lost its data
  SECTION("FLUSHALL") { run(io, b.client.run("FLUSHALL")); }
  SECTION("kill -9 and a start without a file") { server.restart(); }
  const auto begin = steady::now();
  waiting w{b.slots, {}};
  const auto until = begin + 2s;
  run_until(io, [&] { return steady::now() > until; });
  CHECK_FALSE(w.ended());  // the holder has said so meanwhile
  CHECK(p.held() == 1);
  p.release();
  run_until(io, [&] { return w.ended(); });
  CHECK(w.p.token() > 0);
}

TEST_CASE("SCRIPT FLUSH and CLIENT KILL go unnoticed [realtime]", "[realtime]") {
  auto [server, io, a, b] = two_members<>{{.permits = 1, .lease = 1500ms, .quarantine = false}};
  redis::client admin{io, server.url()};
  auto p = run(io, a.slots.acquire());
  for (int i = 0; i < 10; ++i) {
    waiting w{b.slots, {}};
    run_until(io, [&] { return b.slots.stats().waiting_of_all == 1; });
    run(io, admin.run("SCRIPT", "FLUSH"));
    run(io, admin.run("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"));
    run(io, admin.run("CLIENT", "KILL", "TYPE", "pubsub"));
    CHECK(p.release());
    run_until(io, [&] { return w.ended(); });
    CHECK_FALSE(*w.ec);
    p = std::move(w.p);
  }
}

TEST_CASE("D10 at capacity the waiters ask now and then only, and the processes sleep [realtime]", "[realtime]") {
  auto [server, io, a, b] = two_members<>{{.permits = 1, .lease = 1500ms, .quarantine = false}};
  auto p = run(io, a.slots.acquire());
  std::vector<std::unique_ptr<waiting>> contenders;
  for (int i = 0; i < 10; ++i) contenders.push_back(std::make_unique<waiting>(b.slots, canigo::request{}));
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 10; });
  run_for(io, 50ms);  // it subscribes
  const auto before = commands_from_clients(io, a.client);
  const auto begin = steady::now();
  const auto cpu = std::clock();
  // Nothing but what is due is run.
  while (steady::now() - begin < 2s) io.run_one_for(100ms);
  const auto used = std::clock() - cpu;
  const auto leases = (steady::now() - begin) / 1500ms + 1;
  // Each of the two processes three times a lease, however many wait; and the question itself.
  CHECK(commands_from_clients(io, a.client) - before <= 2 * 3 * leases + 1);
  CHECK(used < CLOCKS_PER_SEC / 5);
  CHECK(p.held() == 1);
}

TEST_CASE("D11 options and requests that can't be are refused at once") {
  net::io_context io;
  redis::client client{io, "unix:/nonexistent/redis.sock"};
  const auto refused = [&](const redis::semaphore_options& o, const char* name = "x") {
    try {
      redis::semaphore s{client, name, o};
    } catch (const std::system_error& e) {
      return e.code() == errc::invalid_argument;
    }
    return false;
  };
  CHECK(refused({.permits = 0}));
  CHECK(refused({.lease = 0s}));
  CHECK(refused({.lease = -1s}));
  CHECK(refused({.priorities = 0}));
  CHECK(refused({.priorities = 257}));
  CHECK(refused({.queue_limit = 0}));
  CHECK(refused({.give_up = 0s}));
  CHECK(refused({}, ""));
  redis::semaphore s{client, "x", {.permits = 2, .priorities = 2, .queue_limit = 1}};
  const auto error = [&](canigo::request r) { return error_of(io, s.acquire(r)); };
  CHECK(error({.tokens = 3}) == errc::too_large);
  CHECK(error({.tokens = 0}) == errc::invalid_argument);
  CHECK(error({.priority = 2}) == errc::invalid_priority);
  CHECK(error({.priority = -1}) == errc::invalid_priority);
  CHECK(error({.deadline = steady::now() - 1s}) == errc::deadline_unreachable);
  waiting w{s, {}};
  waiting full{s, {}};
  io.restart();
  while (!full.ended()) io.run_one();
  CHECK(full.ec == errc::queue_full);
  s.stop();
  io.run();
  CHECK(w.ec == errc::stopped);
  CHECK(error_of(io, s.acquire()) == errc::stopped);
  CHECK(s.stats().rejected == 6);
}

TEST_CASE("a semaphore may be destroyed with waiters and with permits out, and the context first [realtime]",
          "[realtime]") {
  redis_server server;
  auto io = std::make_unique<net::io_context>();
  const redis::semaphore_options o{.permits = 1, .lease = 1500ms, .quarantine = false};
  auto a = std::make_unique<member>(*io, server.url(), o);
  redis::permit p = run(*io, a->slots.acquire());
  std::optional<waiting> w;
  w.emplace(a->slots, canigo::request{});
  SECTION("the semaphore") {
    redis::client other{*io, server.url()};
    std::optional<redis::semaphore> s;
    s.emplace(other, "crm", o);
    waiting x{*s, {}};
    run_until(*io, [&] { return s->stats().waiting_of_all == 2; });
    s.reset();
    run_until(*io, [&] { return x.ended(); });
    CHECK(x.ec == errc::stopped);
    CHECK(p.release());
    run_until(*io, [&] { return w->ended(); });
  }
  SECTION("the semaphore and its client") {
    a.reset();
    run_until(*io, [&] { return w->ended(); });
    CHECK(w->ec == errc::stopped);
  }
  SECTION("the context") {
    run_until(*io, [&] { return a->slots.stats().waiting_of_all == 1; });
    io.reset();
    a->slots.stop();
    a.reset();
  }
  p.release();
}

TEST_CASE("a client that listens may go with its context, without another turn of the loop [realtime]", "[realtime]") {
  redis_server server;
  for (const bool is_idle : {false, true}) {
    const auto io = std::make_unique<net::io_context>();
    member a{*io, server.url(), {.permits = 1, .lease = 1s, .quarantine = false}};
    auto p = run(*io, a.slots.acquire());
    bool is_let_in = false;
    a.slots.async_acquire({}, [&](std::error_code ec, const redis::permit&) { is_let_in = !ec; });
    while (run(*io, a.client.run("PUBSUB", "CHANNELS")).elements().empty()) {
    }
    if (is_idle) {
      p.release();
      run_until(*io, [&] { return is_let_in && a.slots.stats().held_by_all == 0; });
    }
    // The leak check sees what is left of it.
  }
}

TEST_CASE("several threads share a semaphore, and each acquire ends once [realtime]", "[realtime]") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  redis::semaphore slots{client, "crm", {.permits = 4, .lease = 20s, .quarantine = false}};
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<int> ended{0};
  const auto work = [&](int i) -> net::awaitable<void> {
    try {
      auto p = co_await canigo::with_timeout(slots.acquire(), i % 3 == 0 ? 5ms : 20s);
      const int now = ++inside;
      for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      co_await canigo::sleep_for(100us);
      --inside;
    } catch (const std::system_error&) {
      // Its time was up.
    }
    ++ended;
  };
  for (int i = 0; i < 300; ++i) net::co_spawn(io, work(i), net::detached);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { io.run(); });
  for (auto& t : threads) t.join();
  CHECK(ended == 300);
  CHECK(most <= 4);
  CHECK(slots.stats().held == 0);
  CHECK(slots.stats().waiting == 0);
}
