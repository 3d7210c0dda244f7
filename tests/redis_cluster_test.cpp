// Three real masters: a limit is where its keys are, whichever of them is dialled, and goes where they go.
#include "canigo/redis/client.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "../lib/redis/slots.hpp"
#include "catch.hpp"
#include "redis_member.hpp"
#include "redis_ports.hpp"
#include "redis_run.hpp"
#include "redis_scripted.hpp"
#include "redis_server.hpp"

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/read_until.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;
using redis::detail::cluster_slots;
using redis::detail::slot_of;

namespace {

/// Three masters, each with a third of the slots, that know each other.
class three_masters {
 public:
  three_masters() {
    for (int i = 0; i < 3; ++i) {
      all_.push_back(std::make_unique<redis_server>(std::vector<std::string>{
          "--port", ports_[at(i)], "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port",
          ports_[at(i) + 3], "--cluster-config-file", "nodes", "--cluster-require-full-coverage", "no"}));
    }
    for (int i = 0; i < 3; ++i) {
      ask(i, redis::command{"CLUSTER", "ADDSLOTSRANGE", first(i), first(i + 1) - 1});
      ask(i, redis::command{"CLUSTER", "SET-CONFIG-EPOCH", i + 1});
    }
    for (int i = 1; i < 3; ++i) {
      ask(i, redis::command{"CLUSTER", "MEET", "127.0.0.1", ports_[0], ports_[3]});
    }
    for (int i = 0; i < 3; ++i) {
      ask_until(io_, url(i), redis::command{"CLUSTER", "SLOTS"},
                [](const redis::reply& r) { return redis::detail::slot_ranges(r).size() == 3; });
      ask_until(io_, url(i), redis::command{"CLUSTER", "INFO"},
                [](const redis::reply& r) { return r.text().find("cluster_state:ok") != std::string::npos; });
    }
  }

  std::string url(int i) const { return "redis://127.0.0.1:" + ports_[at(i)]; }
  redis_server& server(int i) { return *all_[at(i)]; }
  const std::string& port(int i) const { return ports_[at(i)]; }
  /// As that node answers it, of itself.
  redis::reply ask(int i, const redis::command& c) {
    redis::client client{io_, server(i).url()};
    return run(io_, client.run(c));
  }

  static int first(int i) { return static_cast<int>(cluster_slots) / 3 * i + (i == 3 ? 1 : 0); }
  static int owner_of(unsigned slot) {
    int i = 0;
    while (static_cast<int>(slot) >= first(i + 1)) ++i;
    return i;
  }
  /// A name whose keys that node has.
  static std::string name_on(int i) {
    for (int n = 0;; ++n) {
      std::string name = "limit" + std::to_string(n);
      if (owner_of(slot_of("{canigo:default:" + name + "}:")) == i) return name;
    }
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  net::io_context io_;
  const std::vector<std::string> ports_ = free_ports(6);
  std::vector<std::unique_ptr<redis_server>> all_;
};

}  // namespace

TEST_CASE("a limit in a cluster works whichever node is dialled, and its keys are in one slot [realtime]",
          "[realtime]") {
  three_masters cluster;
  drained io;
  for (int owner = 0; owner < 3; ++owner) {
    const std::string name = three_masters::name_on(owner);
    CAPTURE(owner, name);
    const redis::semaphore_options o{.permits = 1, .lease = 60s, .quarantine = false};
    redis::client first{io, cluster.url((owner + 1) % 3)};
    redis::client second{io, cluster.url((owner + 2) % 3)};
    redis::semaphore a{first, name, o};
    redis::semaphore b{second, name, o};
    auto p = run(io, a.acquire(0));
    waiting w{b, {}};
    run_until(io, [&] { return b.stats().waiting_of_all == 1; });
    CHECK_FALSE(w.ended());
    run_for(io, 200ms);  // it has subscribed by then
    const auto since = steady::now();
    p.release();
    run_until(io, [&] { return w.ended(); });
    CHECK(w.p.held() == 1);
    CHECK(w.at - since < 15s);  // by push: a third of the lease is 20 s
    CHECK(cluster.ask(owner, redis::command{"CLUSTER", "COUNTKEYSINSLOT", slot_of("{canigo:default:" + name + "}:")})
              .integer() == 2);
  }
}

TEST_CASE("commands of a client go to the node that has the key [realtime]", "[realtime]") {
  three_masters cluster;
  net::io_context io;
  redis::client client{io, cluster.url(0)};
  std::set<int> owners;
  for (int i = 0; i < 20; ++i) {
    const std::string key = "key" + std::to_string(i);
    owners.insert(three_masters::owner_of(slot_of(key)));
    CHECK(run(io, client.run("SET", key, i)).text() == "OK");
    CHECK(run(io, client.run("GET", key)).text() == std::to_string(i));
  }
  CHECK(owners.size() == 3);
  int there = 0;
  for (int i = 0; i < 3; ++i) there += static_cast<int>(cluster.ask(i, redis::command{"DBSIZE"}).integer());
  CHECK(there == 20);
}

TEST_CASE("a limit goes on when the node that was dialled is there no more [realtime]", "[realtime]") {
  three_masters cluster;
  drained io;
  redis::client client{io, cluster.url(0)};
  redis::semaphore slots{client, three_masters::name_on(1), {.permits = 1, .lease = 1s, .quarantine = false}};
  auto p = run(io, slots.acquire(0));
  cluster.server(0).kill();
  run_for(io, 1500ms);
  CHECK(p.held() == 1);
  p.release();
  p = run(io, slots.acquire(0));
  CHECK(p.held() == 1);
  // And one that begins now, as a new limit of the same client.
  redis::semaphore others{client, three_masters::name_on(2), {.permits = 1, .lease = 1s, .quarantine = false}};
  run_until(io, [&] { return !error_of(io, others.acquire(0)); });
}

TEST_CASE("a limit follows its slot to another node, and is served after a quarantine [realtime]", "[realtime]") {
  three_masters cluster;
  drained io;
  const std::string name = three_masters::name_on(0);
  const unsigned slot = slot_of("{canigo:default:" + name + "}:");
  redis::client client{io, cluster.url(2)};
  redis::semaphore slots{client, name, {.permits = 1, .lease = 1s, .give_up = 60s}};
  auto p = run(io, slots.acquire(0));
  const auto token = p.token();
  const auto id = [&](int i) { return cluster.ask(i, redis::command{"CLUSTER", "MYID"}).text(); };
  cluster.ask(1, redis::command{"CLUSTER", "SETSLOT", slot, "IMPORTING", id(0)});
  cluster.ask(0, redis::command{"CLUSTER", "SETSLOT", slot, "MIGRATING", id(1)});
  waiting w{slots, {}};
  run_for(io, 200ms);
  redis::command migrate{"MIGRATE", "127.0.0.1", cluster.port(1), "", 0, 5000, "KEYS"};
  for (const char* key : {"state", "sess", "q"}) migrate.add("{canigo:default:" + name + "}:s:" + key);
  cluster.ask(0, migrate);
  run_for(io, 200ms);  // some of it is asked of the new node, behind ASKING
  for (const int i : {1, 0, 2}) cluster.ask(i, redis::command{"CLUSTER", "SETSLOT", slot, "NODE", id(1)});
  run_for(io, 500ms);
  p.release();
  run_until(io, [&] { return w.ended(); });
  CHECK(w.p.held() == 1);
  CHECK(w.p.token() > token);
  CHECK(cluster.ask(1, redis::command{"CLUSTER", "COUNTKEYSINSLOT", slot}).integer() >= 2);
}

TEST_CASE("a command that a node sends elsewhere for once follows ASKING there") {
  std::string said;
  scripted_server target{[&](peer& p) -> net::awaitable<void> {
    co_await greet(p);
    co_await net::async_read_until(p.socket, net::dynamic_buffer(said), "go\r\n", net::use_awaitable);
    co_await p.send("+OK\r\n+here\r\n");
    co_await p.linger();
  }};
  scripted_server home{says("-ASK 1 127.0.0.1:" + std::to_string(target.port()) + "\r\n")};
  net::io_context io;
  redis::client client{io, url_of(home)};
  CHECK(run(io, client.run("GET", "go")).text() == "here");
  CHECK(said == redis::command{"ASKING"}.encoded() + redis::command{"GET", "go"}.encoded());
  CHECK(client.stats().in_flight == 0);
}

TEST_CASE("nodes that send each other's commands away are not followed for ever") {
  std::string away;
  scripted_server home{[&](peer& p) -> net::awaitable<void> {
    co_await greet(p);
    for (std::array<char, 4096> part;;) {
      const std::size_t n = co_await p.socket.async_read_some(net::buffer(part), net::use_awaitable);
      for (auto commands = std::count(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(n), '*'); commands > 0;
           --commands) {
        co_await p.send(away);
      }
    }
  }};
  away = "-MOVED 1 :" + std::to_string(home.port()) + "\r\n";
  net::io_context io;
  redis::client client{io, url_of(home)};
  CHECK(what_of(io, client.run("GET", "go")).starts_with("MOVED 1 :"));
  redis::semaphore slots{client, "crm", {.permits = 1, .give_up = 300ms}};
  CHECK(error_of(io, slots.acquire(0)) == errc::store_unavailable);
}

TEST_CASE("a quota in a cluster [realtime]", "[realtime]") {
  three_masters cluster;
  drained io;
  redis::client client{io, cluster.url(0)};
  for (int owner = 0; owner < 3; ++owner) {
    redis::scheduler quota{client, three_masters::name_on(owner), {.rate = rate::per_second(100), .burst = 10}};
    const auto take = [&]() -> net::awaitable<int> {
      for (int i = 0; i < 5; ++i) co_await quota.acquire(0);
      co_return 5;
    };
    CHECK(run(io, take()) == 5);
  }
}
