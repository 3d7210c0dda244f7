// Three real masters: a limit is where its keys are, whichever of them is dialled, and goes where they go.
#include "canigo/redis/client.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "../lib/redis/engine.hpp"
#include "../lib/redis/nodes.hpp"
#include "../lib/redis/slots.hpp"
#include "redis/member.hpp"
#include "redis/ports.hpp"
#include "redis/run.hpp"
#include "redis/scripted.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/read_until.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;
using redis::detail::cluster_slots;
using redis::detail::slot_of;

namespace {

/// Three masters, each with a third of the slots, that know each other, and replicas of the first of them.
class three_masters {
 public:
  explicit three_masters(int replicas = 0, const std::vector<std::string>& more = {}) {
    for (int i = 0; i < 3 + replicas; ++i) {
      std::vector<std::string> arguments{
          "--port", ports_[at(i)], "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port",
          ports_[at(i) + 4], "--cluster-config-file", "nodes", "--cluster-require-full-coverage", "no",
          "--cluster-node-timeout", replicas > 0 ? "2000" : "15000", "--cluster-replica-validity-factor", "0",
          "--repl-diskless-sync-delay", "0"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      all_.push_back(std::make_unique<redis_server>(std::move(arguments)));
    }
    for (int i = 0; i < 3; ++i) {
      ask(i, redis::command{"CLUSTER", "ADDSLOTSRANGE", first(i), first(i + 1) - 1});
      ask(i, redis::command{"CLUSTER", "SET-CONFIG-EPOCH", i + 1});
    }
    for (int i = 1; i < 3 + replicas; ++i) {
      ask(i, redis::command{"CLUSTER", "MEET", "127.0.0.1", ports_[0], ports_[4]});
    }
    for (int i = 3; i < 3 + replicas; ++i) {
      ask_until(io_, server(i).url(), redis::command{"CLUSTER", "REPLICATE", id(0)},
                [](const redis::reply& r) { return r.text() == "OK"; });
      ask_until(io_, server(i).url(), redis::command{"INFO", "replication"},
                [](const redis::reply& r) { return r.text().find("master_link_status:up") != std::string::npos; });
    }
    for (int i = 0; i < 3; ++i) {
      ask_until(io_, url(i), redis::command{"CLUSTER", "SLOTS"}, [replicas](const redis::reply& r) {
        const auto ranges = redis::detail::slot_ranges(r);
        return ranges.size() == 3 && static_cast<int>(ranges[0].replicas.size()) == replicas;
      });
      ask_until(io_, url(i), redis::command{"CLUSTER", "INFO"},
                [](const redis::reply& r) { return r.text().find("cluster_state:ok") != std::string::npos; });
    }
  }

  std::string url(int i) const { return "redis://127.0.0.1:" + ports_[at(i)]; }
  redis_server& server(int i) { return *all_[at(i)]; }
  const std::string& port(int i) const { return ports_[at(i)]; }
  std::string id(int i) { return ask(i, redis::command{"CLUSTER", "MYID"}).text(); }
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
  const std::vector<std::string> ports_ = free_ports(8);
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
    auto p = run(io, a.acquire());
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
  // Also where the one that is dialled is not where it says it is.
  const bool is_by_path = GENERATE(false, true);
  redis::client client{io, is_by_path ? cluster.server(0).url() : cluster.url(0)};
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
  redis::semaphore slots{client, three_masters::name_on(1), {.permits = 1, .lease = 5s, .quarantine = false}};
  auto p = run(io, slots.acquire());
  cluster.server(0).kill();
  const auto calls = slots.stats().round_trips;
  run_until(io, [&] { return slots.stats().round_trips > calls; });
  CHECK(p.held() == 1);
  p.release();
  p = run(io, slots.acquire());
  CHECK(p.held() == 1);
  // And one that begins now, as a new limit of the same client.
  redis::semaphore others{client, three_masters::name_on(2), {.permits = 1, .lease = 1s, .quarantine = false}};
  run_until(io, [&] { return !error_of(io, others.acquire()); });
}

TEST_CASE("a limit goes on when the node that was dialled had it, and its replica takes over [realtime]",
          "[realtime]") {
  three_masters cluster{1};
  drained io;
  redis::client client{io, cluster.url(0)};
  const std::string name = three_masters::name_on(0);
  redis::semaphore slots{client, name, {.permits = 1, .lease = 1s, .give_up = 60s}};
  auto p = run(io, slots.acquire());
  const auto token = p.token();
  p.release();
  cluster.server(0).kill();
  // No node has ever said that another one has the key.
  p = run(io, slots.acquire());
  CHECK(p.held() == 1);
  CHECK(p.token() > token);
  CHECK(cluster.ask(3, redis::command{"CLUSTER", "COUNTKEYSINSLOT", slot_of("{canigo:default:" + name + "}:")})
            .integer() >= 2);
  redis::semaphore others{client, three_masters::name_on(1), {.permits = 1, .lease = 1s, .quarantine = false}};
  CHECK_FALSE(error_of(io, others.acquire()));
}

TEST_CASE("a user without INFO follows a limit to its new node as well [realtime]", "[realtime]") {
  three_masters cluster{1};
  // Nor may it ask by HELLO.
  for (int i = 0; i < 4; ++i) {
    cluster.ask(i, redis::command{"ACL", "SETUSER", "less", "on", "nopass", "~*", "&*", "+@all", "-info", "-hello"});
  }
  drained io;
  redis::client client{io, "redis://less:any@127.0.0.1:" + cluster.port(0)};
  redis::semaphore slots{client, three_masters::name_on(0), {.permits = 1, .lease = 1s, .give_up = 60s}};
  auto p = run(io, slots.acquire());
  p.release();
  cluster.server(0).kill();
  p = run(io, slots.acquire());
  CHECK(p.held() == 1);
}

TEST_CASE("a cluster that has several databases keeps a limit in the URL's, whichever node it goes to [realtime]",
          "[realtime]") {
  // Valkey 9, which tests/redis/stores runs in the place of Redis.
  const char* store = std::getenv("CANIGO_TEST_STORE");
  if (store == nullptr || std::string_view{store} != "valkey-9") return;
  three_masters cluster{1, {"--cluster-databases", "4"}};
  drained io;
  redis::client client{io, cluster.url(0) + "/1"};
  const std::string name = three_masters::name_on(0);
  redis::semaphore slots{client, name, {.permits = 1, .lease = 1s, .give_up = 60s}};
  auto p = run(io, slots.acquire());
  p.release();
  CHECK(cluster.ask(0, redis::command{"DBSIZE"}).integer() == 0);
  cluster.server(0).kill();
  p = run(io, slots.acquire());
  CHECK(p.held() == 1);
  redis::client its{io, cluster.url(3) + "/1"};
  CHECK(run(io, its.run("DBSIZE")).integer() >= 2);
  CHECK(cluster.ask(3, redis::command{"DBSIZE"}).integer() == 0);
}

TEST_CASE("a command without a key is asked of the node that was dialled [realtime]", "[realtime]") {
  three_masters cluster;
  net::io_context io;
  redis::client client{io, cluster.url(0)};
  std::set<std::string> keys, found;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "key" + std::to_string(i);
    run(io, client.run("SET", key, i));
    if (three_masters::owner_of(slot_of(key)) == 0) keys.insert(key);
  }
  std::string cursor = "0";
  do {
    const auto page = run(io, client.run("SCAN", cursor, "COUNT", 5));
    for (const auto& key : page.elements().at(1).elements()) found.insert(key.text());
    cursor = page.elements().at(0).text();
  } while (cursor != "0");
  CHECK(found == keys);
  CHECK(run(io, client.run("DBSIZE")).integer() == static_cast<std::int64_t>(keys.size()));
}

namespace {

/// A node of a cluster that says who has the slots, and is told what to say to all else.
scripted_server::script node_that_says(std::string& slots, std::string& all_else, std::atomic<int>* asked = nullptr,
                                       std::string hello = hello_of("cluster"),
                                       std::string info = "$11\r\nrun_id:fake\r\n") {
  return [&slots, &all_else, asked, greeting = "+OK\r\n" + hello + info](peer& p) -> net::awaitable<void> {
    co_await command_with(p, "server");
    co_await p.send(greeting);
    for (std::array<char, 4096> part;;) {
      const std::size_t n = co_await p.socket.async_read_some(net::buffer(part), net::use_awaitable);
      std::string_view said{part.data(), n};
      for (std::size_t at = said.find('*'); at != said.npos; at = said.find("\n*", at + 1)) {
        const bool asks = said.substr(said.find('*', at)).starts_with("*2\r\n$7\r\nCLUSTER");
        if (asks && asked != nullptr) ++*asked;
        co_await p.send(asks ? slots : all_else);
      }
    }
  };
}

std::error_code error_of_reply(net::io_context& io, net::awaitable<redis::reply> work) {
  try {
    run(io, std::move(work));
    return {};
  } catch (const std::system_error& e) {
    return e.code();
  }
}

/// What CLUSTER SLOTS says where one node has them all.
std::string all_slots_at(const std::string& port) {
  return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:" + port + "\r\n";
}

/// A node that the client was sent to, and one that has all slots.
struct two_nodes {
  auto& nodes() const { return redis::detail::engine_of(*client).cluster(); }
  two_nodes(std::string home_says, std::string other_says)
      : of_home{std::move(home_says)}, of_other{std::move(other_says)} {
    slots = all_slots_at(std::to_string(other.port()));
    client.emplace(io, url_of(home));
    run_until(io, [&] {
      error_of_reply(io, client->run("PING"));
      return nodes().count() == 1;
    });
  }

  std::string slots, of_home, of_other;
  std::atomic<int> asked_home = 0, asked_other = 0;
  scripted_server home{node_that_says(slots, of_home, &asked_home)};
  scripted_server other{node_that_says(slots, of_other, &asked_other)};
  net::io_context io;
  std::optional<redis::client> client;
};

}  // namespace

TEST_CASE("a server says by HELLO that it is in a cluster; one that does not say so is asked for its slots") {
  const auto bulk = [](const std::string& text) { return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"; };
  const std::string refused = "-NOPERM User u has no permissions to run the 'hello' command\r\n";
  struct {
    std::string hello;
    std::string info;
    bool is_asked;
  } const cases[]{
      // Redis, Valkey and Redict, each with its own line in INFO.
      {hello_of("cluster"), bulk("redis_mode:cluster\r\n"), true},
      {hello_of("cluster"), bulk("server_mode:cluster\r\n"), true},
      {hello_of("cluster"), bulk("redict_mode:cluster\r\n"), true},
      {hello_of("cluster"), "-NOPERM no INFO for this user\r\n", true},
      {hello_of("standalone"), bulk("server_mode:standalone\r\n"), false},
      // One that knows no HELLO, or says too little.
      {refused, "-NOPERM no INFO for this user\r\n", true},
      {"-ERR unknown command 'HELLO'\r\n", bulk("server_mode:cluster\r\n"), true},
      {"*2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n", "$0\r\n\r\n", true},
      {"*1\r\n$4\r\nmode\r\n", "$0\r\n\r\n", true},
      {"*0\r\n", "$0\r\n\r\n", true},
  };
  for (const auto& c : cases) {
    CAPTURE(c.hello, c.info);
    std::string slots, all_else = "+here\r\n";
    std::atomic<int> asked = 0;
    slots = all_slots_at(free_ports(1).front());
    scripted_server node{node_that_says(slots, all_else, &asked, c.hello, c.info)};
    net::io_context io;
    redis::client client{io, url_of(node)};
    CHECK(run(io, client.run("ECHO", "go")).text() == "here");
    const auto& nodes = redis::detail::engine_of(client).cluster();
    if (c.is_asked) run_until(io, [&] { return nodes.count() == 1; });
    CHECK(asked == (c.is_asked ? 1 : 0));
  }
}

TEST_CASE("a server without a cluster that says nothing of itself refuses to tell its slots, which does no harm") {
  std::string slots = "-ERR This instance has cluster support disabled\r\n", all_else = "+here\r\n";
  std::atomic<int> asked = 0;
  const std::string refused = "-NOPERM no\r\n";
  scripted_server node{node_that_says(slots, all_else, &asked, refused, refused)};
  net::io_context io;
  redis::client client{io, url_of(node)};
  CHECK(run(io, client.run("ECHO", "go")).text() == "here");
  CHECK(run(io, client.run("GET", "a key")).text() == "here");
  run_until(io, [&] { return asked == 1; });
  CHECK(client.stats().connects == 1);
  CHECK(client.stats().failures == 0);
}

TEST_CASE("a cluster that has only database 0 refuses another at once, in every failure mode but open ones") {
  const auto ports = free_ports(2);
  redis_server server{{"--port", ports[0], "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port",
                       ports[1], "--cluster-config-file", "nodes"}};
  net::io_context io;
  redis::client client{io, "redis://127.0.0.1:" + ports[0] + "/1"};
  // Redis says "SELECT is not allowed in cluster mode", and Valkey 9 "DB index is out of range".
  const std::string said = what_of(io, client.run("PING"));
  CAPTURE(said);
  CHECK((said.find("SELECT is not allowed") != said.npos || said.find("DB index is out of range") != said.npos));
  CHECK(error_of_reply(io, client.run("PING")) == redis::error::command_failed);
  redis::semaphore slots{client, "crm", {.permits = 1, .give_up = canigo::duration::max()}};
  CHECK(error_of(io, slots.acquire()) == redis::error::command_failed);
  CHECK(slots.stats().last_error.find(said.substr(0, said.rfind(": "))) != std::string::npos);
  redis::scheduler quota{client, "crm", {.rate = rate::per_second(1), .on_failure = redis::failure_mode::open()}};
  const auto take = [&]() -> net::awaitable<bool> {
    co_await quota.acquire(0);
    co_return true;
  };
  CHECK(run(io, take()));
}

TEST_CASE("a node that is named no more is forgotten") {
  std::string slots, all_else = "+here\r\n";
  scripted_server home{node_that_says(slots, all_else)};
  const auto ports = free_ports(3);
  net::io_context io;
  redis::client client{io, url_of(home)};
  const auto& nodes = redis::detail::engine_of(client).cluster();
  for (const auto& port : ports) {
    slots = all_slots_at(port);
    // Each says that the one before has gone, too.
    redis::detail::engine_of(client).cluster().ask(redis::detail::engine_of(client).shared_from_this());
    run(io, client.run("ECHO", "go"));
    run_until(io, [&] { return nodes.count() == 1 && nodes.of(0)->where().ends_with(port + "/0"); });
    CHECK(nodes.of(cluster_slots - 2) == nodes.of(0));
    CHECK(nodes.of(cluster_slots - 1) == nodes.of(0));
  }
  // The one that was dialled is no other than that.
  slots = all_slots_at(std::to_string(home.port()));
  redis::detail::engine_of(client).cluster().ask(redis::detail::engine_of(client).shared_from_this());
  run_until(io, [&] { return nodes.of(0).get() == &redis::detail::engine_of(client); });
  CHECK(nodes.count() == 1);
  // It goes on to say so, and not more, when the client ends.
  client.stop();
  CHECK(nodes.count() == 0);
  CHECK(error_of_reply(io, client.run("ECHO", "go")) == errc::stopped);
}

TEST_CASE("who has the slots is asked where the client was sent to, and not of every node that it finds") {
  two_nodes t{"+here\r\n", "+here\r\n"};
  CHECK(run(t.io, t.client->run("GET", "a key")).text() == "here");
  CHECK(t.nodes().of(0)->stats().connects == 1);
  CHECK(t.asked_home == 1);
  CHECK(t.asked_other == 0);
}

TEST_CASE("a node that is silent when it is asked for the slots is not waited for, however long commands may take") {
  std::string slots, all_else;
  scripted_server home{node_that_says(slots, all_else)};
  net::io_context io;
  redis::client client{io, url_of(home), {.timeout = canigo::duration::max()}};
  const auto& nodes = redis::detail::engine_of(client).cluster();
  CHECK(error_of_reply(io, client.run("ECHO", "go")) == redis::error::connection_lost);
  slots = all_slots_at(free_ports(1).front());
  all_else = "+here\r\n";
  CHECK_FALSE(error_of_reply(io, client.run("ECHO", "go")));
  run_until(io, [&] { return nodes.count() == 1; });
}

TEST_CASE("an error that concerns one limit forgets no slots of the node that said it") {
  two_nodes t{"-WRONGTYPE no hash\r\n", ""};
  const auto has = [&] { return t.nodes().of(7)->where().ends_with(std::to_string(t.other.port()) + "/0"); };
  CHECK(has());
  for (const char* said : {"-WRONGTYPE no hash\r\n", "-NOPERM no\r\n", "-TRYAGAIN later\r\n"}) {
    CAPTURE(said);
    t.of_home = t.of_other = said;
    redis::semaphore limit{*t.client, "crm", {.permits = 1, .give_up = 200ms}};
    CHECK(error_of(t.io, limit.acquire()));
    CHECK(has());
  }
}

TEST_CASE("a node that may not write is asked no more until it is named anew, and stays connected") {
  two_nodes t{"+here\r\n", "-NOREPLICAS Not enough good replicas to write.\r\n"};
  const auto that_one = t.nodes().of(7);
  CHECK(error_of_reply(t.io, t.client->run("SET", "a key", 1)) == redis::error::no_replicas);
  CHECK(run(t.io, t.client->run("GET", "a key")).text() == "here");
  CHECK(that_one->stats().answered == 1);
  CHECK(that_one->stats().failures == 0);
}

TEST_CASE("a limit that was sent in a circle is followed again later [realtime]", "[realtime]") {
  std::string slots = "*0\r\n", all_else;
  const auto port = free_ports(1).front();
  redis_server target{{"--port", port, "--bind", "127.0.0.1"}};
  scripted_server home{node_that_says(slots, all_else)};
  all_else = "-MOVED 1 :" + std::to_string(home.port()) + "\r\n";
  drained io;
  redis::client client{io, url_of(home)};
  redis::semaphore limit{client, "crm", {.permits = 1, .give_up = 400ms, .quarantine = false}};
  CHECK(error_of(io, limit.acquire()) == errc::store_unavailable);
  io.restart();
  io.run();  // what was under way has been sent in a circle, too
  all_else = "-MOVED 1 127.0.0.1:" + port + "\r\n";
  std::this_thread::sleep_for(600ms);  // it may ask again by then
  // The first that is sent away is no failure.
  CHECK(run(io, limit.acquire_now()));
}

TEST_CASE("a limit follows its slot to another node, and is served after a quarantine [realtime]", "[realtime]") {
  three_masters cluster;
  drained io;
  const std::string name = three_masters::name_on(0);
  const unsigned slot = slot_of("{canigo:default:" + name + "}:");
  redis::client client{io, cluster.url(2)};
  redis::semaphore slots{client, name, {.permits = 1, .lease = 1s, .give_up = 60s}};
  auto p = run(io, slots.acquire());
  const auto token = p.token();
  cluster.ask(1, redis::command{"CLUSTER", "SETSLOT", slot, "IMPORTING", cluster.id(0)});
  cluster.ask(0, redis::command{"CLUSTER", "SETSLOT", slot, "MIGRATING", cluster.id(1)});
  waiting w{slots, {}};
  run_for(io, 200ms);
  redis::command migrate{"MIGRATE", "127.0.0.1", cluster.port(1), "", 0, 5000, "KEYS"};
  for (const char* key : {"state", "sess", "q"}) migrate.add("{canigo:default:" + name + "}:s:" + key);
  cluster.ask(0, migrate);
  run_for(io, 200ms);  // some of it is asked of the new node, behind ASKING
  for (const int i : {1, 0, 2}) cluster.ask(i, redis::command{"CLUSTER", "SETSLOT", slot, "NODE", cluster.id(1)});
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
  CHECK(error_of(io, slots.acquire()) == errc::store_unavailable);
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
