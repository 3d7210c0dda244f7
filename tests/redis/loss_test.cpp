// Redis loses some of a limit's keys: by eviction, by hand, or with the memory of it all. Then nobody is let in for one
// lease, and after it everybody is served.
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "redis/member.hpp"
#include "redis/process.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

const std::vector<std::string> keys{"state", "sess", "q"};

/// The keys that one of these numbers stands for.
std::vector<std::string> subset(unsigned which, const std::string& limit = "crm", const std::string& kind = "s") {
  std::vector<std::string> some;
  for (unsigned i = 0; i < keys.size(); ++i) {
    if ((which >> i & 1) != 0) some.push_back("{canigo:default:" + limit + "}:" + kind + ":" + keys[i]);
  }
  return some;
}

void remove(net::io_context& io, redis::client& client, const std::vector<std::string>& some) {
  redis::command c{"DEL"};
  for (const auto& key : some) c.add(key);
  run(io, client.run(c));
}

/// Takes a permit and has it until it is killed.
process holder_of_one(const std::string& url, const redis::semaphore_options& o) {
  return ready_process([&](auto ready) {
    net::io_context io;
    member m{io, url, o};
    const auto held = run(io, m.slots.acquire());
    ready();
    io.restart();
    io.run();
  });
}

}  // namespace

TEST_CASE("any keys of a limit that are lost are lost data: who waits is served, and the cap holds [realtime]",
          "[realtime]") {
  // Long, so that a busy machine does not lose it; all subsets at once, each of another limit.
  const redis::semaphore_options o{.permits = 1, .lease = 5s};
  redis_server server;
  drained io;
  redis::client admin{io, server.url()};
  struct pair {
    pair(net::io_context& context, const std::string& url, unsigned number, const redis::semaphore_options& options)
        : which{number},
          name{"crm" + std::to_string(number)},
          one{context, url},
          other{context, url},
          a{one, name, options},
          b{other, name, options},
          first{a, {}} {}
    unsigned which;
    std::string name;
    redis::client one, other;
    redis::semaphore a, b;
    waiting first;
    std::optional<waiting> w = {};
  };
  std::list<pair> all;
  for (unsigned which = 1; which < 8; ++which) all.emplace_back(io, server.url(), which, o);
  for (auto& x : all) {
    run_until(io, [&] { return x.first.ended(); });
    x.w.emplace(x.b, canigo::request{});
  }
  for (auto& x : all) {
    run_until(io, [&] { return x.b.stats().waiting_of_all == 1; });
    remove(io, admin, subset(x.which, x.name));
  }
  // Who has it goes on to have it, and nobody else gets it.
  run_for(io, 11s);
  for (auto& x : all) {
    CAPTURE(x.which);
    CHECK(x.first.p.held() == 1);
    CHECK_FALSE(x.w->ended());
    const auto token = x.first.p.token();
    x.first.p.release();
    run_until(io, [&] { return x.w->ended(); });
    CHECK(x.w->p.held() == 1);
    CHECK(x.w->p.token() > token);
  }
}

TEST_CASE("any keys of a limit are lost, and who held a permit dies: it comes back [realtime]", "[realtime]") {
  const redis::semaphore_options o{.permits = 1, .lease = 1s};
  for (unsigned which = 1; which < 8; ++which) {
    CAPTURE(which);
    redis_server server;
    process holder = holder_of_one(server.url(), o);
    net::io_context io;
    member m{io, server.url(), o};
    waiting w{m.slots, {}};
    run_until(io, [&] { return m.slots.stats().waiting_of_all == 1; });
    redis::client admin{io, server.url()};
    remove(io, admin, subset(which));
    holder.kill();
    run_until(io, [&] { return w.ended(); });
    CHECK(w.p.held() == 1);
  }
}

TEST_CASE("whatever a Redis that is full throws away, a limit is served once there is room [realtime]", "[realtime]") {
  for (const std::string policy : {"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru",
                                   "allkeys-lfu", "allkeys-random"}) {
    CAPTURE(policy);
    auto [server, io, a, b] = two_members<drained>{{.permits = 1, .lease = 400ms}};
    redis::client admin{io, server.url()};
    auto p = run(io, a.slots.acquire());
    waiting w{b.slots, {}};
    run_until(io, [&] { return b.slots.stats().waiting_of_all == 1; });
    run(io, admin.run("CONFIG", "SET", "maxmemory-policy", policy));
    run(io, admin.run("CONFIG", "SET", "maxmemory", 3'000'000));
    // Until one of them has gone, whichever.
    const auto are_all_there = [&] {
      redis::command c{"EXISTS"};
      for (const auto& key : subset(7)) c.add(key);
      return run(io, admin.run(c)).integer() == 3;
    };
    std::uint64_t most = 0;
    try {
      for (int i = 0; are_all_there() && i < 20'000; ++i) {
        run(io, admin.run("SET", "other" + std::to_string(i), std::string(10'000, 'x')));
        most = std::max(most, p.held() + w.p.held());
      }
    } catch (const std::system_error& e) {
      CHECK(e.code() == redis::error::out_of_memory);
    }
    run(io, admin.run("CONFIG", "SET", "maxmemory", 0));
    run_until(io, [&] {
      most = std::max(most, p.held() + w.p.held());
      p.release();
      return w.ended();
    });
    CHECK(most == 1);
    CHECK(w.p.held() == 1);
  }
}

TEST_CASE("a quota whose keys are lost is served again, and starts empty [realtime]", "[realtime]") {
  for (unsigned which = 1; which < 8; ++which) {
    CAPTURE(which);
    redis_server server;
    drained io;
    redis::client client{io, server.url()};
    redis::scheduler quota{client, "crm", {.rate = rate::per_second(20), .burst = 20}};
    int granted = 0;
    const auto take = [&]() -> net::awaitable<void> {
      co_await quota.acquire(0);
      ++granted;
    };
    for (int i = 0; i < 4; ++i) net::co_spawn(io, take(), net::detached);
    run_until(io, [&] { return granted == 1; });
    remove(io, client, subset(which, "crm", "r"));
    run_until(io, [&] { return granted == 4; });
    // There is something in it, and there is no queue.
    run_for(io, 500ms);
    const auto since = steady::now();
    remove(io, client, subset(which, "crm", "r"));
    for (int i = 0; i < 5; ++i) net::co_spawn(io, take(), net::detached);
    run_until(io, [&] { return granted == 9; });
    if ((which & 3) == 0) continue;         // nothing was lost
    CHECK(steady::now() - since >= 240ms);  // of five at 20 a second
  }
}

TEST_CASE("a holder that was killed frees its permit, however rarely others ask [realtime]", "[realtime]") {
  redis_server server;
  const redis::semaphore_options o{.permits = 1, .lease = 500ms, .quarantine = false};
  holder_of_one(server.url(), o).kill();
  std::this_thread::sleep_for(1s);
  // Each is another process, as far as Redis can tell.
  int asked = 0;
  for (bool is_free = false; !is_free;) {
    net::io_context io;
    member m{io, server.url(), o};
    try {
      is_free = run(io, m.slots.acquire_now()).has_value();
      ++asked;
    } catch (const std::system_error& e) {
      REQUIRE(e.code() == errc::store_unavailable);  // this one was held up, and may not have asked
    }
    if (!is_free) std::this_thread::sleep_for(400ms);
  }
  CHECK(asked <= 3);
}

TEST_CASE("a process that is killed while it waits holds up no other until its lease ends [realtime]", "[realtime]") {
  redis_server server;
  const redis::semaphore_options o{.permits = 2, .lease = 60s, .quarantine = false};
  net::io_context io;
  member holds{io, server.url(), o};
  member waits{io, server.url(), o};
  auto p = run(io, holds.slots.acquire({.tokens = 2}));
  process dies{[&] {
    net::io_context its_own;
    member another{its_own, server.url(), o};
    // As many as there are places, all of them before the others.
    waiting first{another.slots, {}}, second{another.slots, {}};
    its_own.run();
  }};
  const std::string limit_keys = "{canigo:default:crm}:s:";
  const auto queue = [&] { return run(io, holds.client.run("ZRANGE", limit_keys + "q", 0, -1)).elements(); };
  while (queue().size() != 2) REQUIRE_FALSE(dies.has_ended());
  const std::string first = queue().front().text();
  const std::string session = first.substr(0, first.find('|'));
  // Redis has seen its subscription: then the number of its last call has a half.
  const auto is_seen = [&] {
    const std::string record = run(io, holds.client.run("HGET", limit_keys + "state", session)).text();
    double number = 0;
    std::memcpy(&number, record.data() + sizeof number, sizeof number);
    return std::floor(number) != number;
  };
  while (!is_seen()) REQUIRE_FALSE(dies.has_ended());
  waiting w{waits.slots, {}};
  while (queue().size() != 3) run_for(io, 10ms);
  dies.kill();
  // Redis grants to a process that has died until it has read the end of its connection.
  const auto listeners = [&] {
    return run(io, holds.client.run("PUBSUB", "NUMSUB", limit_keys + "n:" + session)).elements();
  };
  while (listeners().at(1).integer() != 0) {
  }
  const auto since = steady::now();
  p.release();
  run_until(io, [&] { return w.ended(); });
  CHECK(w.p.held() == 1);
  CHECK(steady::now() - since < 20s);
}

TEST_CASE("processes that are killed while they wait leave nothing behind [realtime]", "[realtime]") {
  redis_server server;
  const redis::semaphore_options o{.permits = 1, .lease = 300ms, .quarantine = false};
  net::io_context io;
  member m{io, server.url(), o};
  auto p = run(io, m.slots.acquire());
  for (int i = 0; i < 5; ++i) {
    process waits{[&] {
      net::io_context its_own;
      member another{its_own, server.url(), o};
      const auto never = run(its_own, another.slots.acquire());
    }};
    // If this one is held up for a lease, the other is let in and ends.
    run_until(io, [&] { return m.slots.stats().waiting_of_all > 0 || waits.has_ended(); });
    waits.kill();
    p.release();
    p = run(io, m.slots.acquire());
  }
  p.release();
  run_for(io, 1s);  // less if there is nothing to do
  std::this_thread::sleep_for(1s);
  // Few calls: no one else keeps the time there.
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(400ms);
    const auto got = run(io, m.slots.acquire_now());
  }
  CHECK(run(io, m.client.run("ZCARD", "{canigo:default:crm}:s:sess")).integer() == 1);
  CHECK(run(io, m.client.run("HLEN", "{canigo:default:crm}:s:state")).integer() == 2);
}
