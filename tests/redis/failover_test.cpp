// A master, its replica and a sentinel, all real: what becomes of a limit when the master dies, or steps back.
#include "canigo/redis/semaphore.hpp"
#include "canigo/timeout.hpp"

#include "redis/member.hpp"
#include "redis/ports.hpp"
#include "redis/process.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"
#include "support/said_by.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <unistd.h>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

/// A sentinel that watches what listens on `master`; `more` is of its file.
process sentinel_of(const std::string& file, const std::string& port, const std::string& master,
                    const std::string& more) {
  std::ofstream{file} << "port " << port << "\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 " << master << " 1\n"
                      << more;
  return process{[&] {
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int fd : {0, 1, 2}) ::dup2(nowhere, fd);
    ::execlp("redis-server", "redis-server", file.c_str(), "--sentinel", nullptr);
  }};
}

/// All three, the replica follows, and the sentinel knows it.
struct cluster {
  cluster() {
    net::io_context io;
    ask_until(io, replica.url(), redis::command{"ROLE"},
              [](const redis::reply& r) { return r.elements().size() > 3 && r.elements()[3].text() == "connected"; });
    start_sentinel();
    ask_until(io, sentinel_url(), redis::command{"SENTINEL", "replicas", "main"},
              [](const redis::reply& r) { return r.elements().size() == 1; });
  }

  const std::vector<std::string> ports = free_ports(3);
  redis_server master{{"--port", ports[0], "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"}};
  redis_server replica{{"--port", ports[1], "--bind", "127.0.0.1", "--replicaof", "127.0.0.1", ports[0]}};
  std::optional<process> sentinel;

  std::string sentinel_url() const { return "redis://127.0.0.1:" + ports[2]; }
  std::string url() const { return "redis+sentinel://127.0.0.1:" + ports[2] + "/main"; }

  void start_sentinel(std::size_t watched = 0) {
    sentinel.emplace(sentinel_of(master.folder() / "sentinel.conf", ports[2], ports[watched],
                                 "sentinel down-after-milliseconds main 400\nsentinel failover-timeout main 3000\n"));
  }
};

const redis::semaphore_options two_short_leases{.permits = 2, .lease = 2s, .give_up = 60s};

/// Tasks that take permits and give them back until they are told to end, and what is out among them.
struct bustle {
  struct side {
    redis::semaphore& slots;
    int granted = 0;
  };

  net::awaitable<void> work(side& s) {
    ++running;
    while (!is_ending) {
      try {
        const redis::permit p = co_await s.slots.acquire();
        // Who is told that a lease has run out is told now, however late this loop is.
        const auto executor = co_await net::this_coro::executor;
        for (int i = 0; i < 3; ++i) co_await net::post(executor, net::use_awaitable);
        out.push_back(&p);
        most = std::max(most, weight());
        ++s.granted;
        co_await canigo::sleep_for(1ms);
        std::erase(out, &p);
      } catch (const std::system_error&) {
        // Neither of the two is the master.
      }
    }
    --running;
  }
  std::uint64_t weight() const {
    std::uint64_t sum = 0;
    for (const auto* p : out) sum += p->held();
    return sum;
  }

  std::vector<const redis::permit*> out;
  std::uint64_t most = 0;
  int running = 0;
  bool is_ending = false;
};

}  // namespace

TEST_CASE("sentinels may want a password, which may be another one than the master's [realtime]", "[realtime]") {
  const auto ports = free_ports(2);
  redis_server master{{"--port", ports[0], "--bind", "127.0.0.1", "--requirepass", "of-the-master"}};
  net::io_context io;
  const auto ask = [&](const std::string& credentials, const redis::client_options& o) -> std::string {
    redis::client client{io, "redis+sentinel://" + credentials + "127.0.0.1:" + ports[1] + "/main", o};
    try {
      return run(io, client.run("ECHO", "here")).text();
    } catch (const std::system_error& e) {
      return said_by(e);
    }
  };
  for (const std::string password : {"of-the-master", "its-own"}) {
    CAPTURE(password);
    process sentinel = sentinel_of(master.folder() / "sentinel.conf", ports[1], ports[0],
                                   "sentinel auth-pass main of-the-master\nrequirepass " + password + "\n");
    ask_until(io, "redis://:" + password + "@127.0.0.1:" + ports[1], redis::command{"PING"},
              [](const redis::reply& r) { return r.text() == "PONG"; });
    const bool is_same = password == "of-the-master";
    const std::string with_that_of_the_url = ask(":of-the-master@", {});
    if (is_same) {
      CHECK(with_that_of_the_url == "here");
    } else {
      CHECK(ask(":of-the-master@", {.sentinel_password = password}) == "here");
      CHECK(ask(":of-the-master@", {.sentinel_user = "default", .sentinel_password = password}) == "here");
      // It fails at once, and says where.
      CHECK(with_that_of_the_url.find("sentinel 127.0.0.1:" + ports[1] + ": WRONGPASS") != std::string::npos);
    }
    CHECK(ask("", {}).find("NOAUTH") != std::string::npos);
  }
  // Its own is said to one that asks for none, too, and does no harm.
  process open = sentinel_of(master.folder() / "sentinel.conf", ports[1], ports[0],
                             "sentinel auth-pass main of-the-master\nprotected-mode no\n");
  ask_until(io, "redis://127.0.0.1:" + ports[1], redis::command{"PING"},
            [](const redis::reply& r) { return r.text() == "PONG"; });
  CHECK(ask(":of-the-master@", {.sentinel_password = "none-is-wanted"}) == "here");
}

TEST_CASE("sentinels may let nobody but their users do anything [realtime]", "[realtime]") {
  const auto ports = free_ports(2);
  redis_server master{{"--port", ports[0], "--bind", "127.0.0.1"}};
  net::io_context io;
  const auto ask = [&](const std::string& credentials, const redis::client_options& o) -> std::string {
    redis::client client{io, "redis+sentinel://" + credentials + "127.0.0.1:" + ports[1] + "/main", o};
    try {
      return run(io, client.run("ECHO", "here")).text();
    } catch (const std::system_error& e) {
      return said_by(e);
    }
  };
  process sentinel = sentinel_of(master.folder() / "sentinel.conf", ports[1], ports[0],
                                 "user default on nopass -@all +ping\nuser app on >its-own +@all\n");
  ask_until(io, "redis://app:its-own@127.0.0.1:" + ports[1], redis::command{"PING"},
            [](const redis::reply& r) { return r.text() == "PONG"; });
  CHECK(ask("", {.sentinel_user = "app", .sentinel_password = "its-own"}) == "here");
  CHECK(ask("", {}).find("NOPERM") != std::string::npos);
  CHECK(ask("", {.sentinel_user = "app", .sentinel_password = "another"}).find("WRONGPASS") != std::string::npos);
  // The URL's is the master's first, which knows no such user here.
  CHECK(ask("app:its-own@", {}).find("127.0.0.1:" + ports[1] + ": ") == std::string::npos);
}

TEST_CASE("when the master dies the replica's clients wait for one lease, and the cap holds [realtime]", "[realtime]") {
  auto [all, io, a, b] = two_members<net::io_context, cluster>{two_short_leases};
  auto p = run(io, a.slots.acquire({.tokens = 2}));
  CHECK(p.held() == 2);
  waiting first{b.slots, {}};
  waiting second{b.slots, {}};
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 2; });
  CHECK(run(io, a.client.run("WAIT", 1, 10'000)).integer() == 1);  // what is written now is on the replica, too

  all.master.kill();
  std::uint64_t most = 0;
  canigo::duration longest_quarantine{};
  run_until(io, [&] {
    most = std::max(most, p.held() + first.p.held() + second.p.held());
    longest_quarantine = std::max({longest_quarantine, a.slots.stats().quarantine, b.slots.stats().quarantine});
    // One whose lease outlives all this gives back what it has.
    if (b.slots.stats().round_trips > 0 && longest_quarantine > 0s) p.release();
    return first.ended() && second.ended();
  });
  CHECK(most == 2);
  CHECK(longest_quarantine > 0s);
  CHECK(longest_quarantine <= 2s);
  CHECK_FALSE(*first.ec);
  CHECK_FALSE(*second.ec);
  CHECK(first.p.token() < second.p.token());
  CHECK(run(io, b.client.run("ROLE")).elements().front().text() == "master");
}

TEST_CASE("a master that is made a replica while it is up is left for the new one, and the cap holds [realtime]",
          "[realtime]") {
  auto [all, io, a, b] = two_members<net::io_context, cluster>{two_short_leases};
  bustle tasks;
  bustle::side one{a.slots}, two{b.slots};
  for (int i = 0; i < 3; ++i) {
    for (auto* s : {&one, &two}) net::co_spawn(io, tasks.work(*s), net::detached);
  }
  run_until(io, [&] { return one.granted > 20 && two.granted > 20; });

  ask_until(io, all.sentinel_url(), redis::command{"SENTINEL", "FAILOVER", "main"},
            [](const redis::reply& r) { return r.text() == "OK"; });
  ask_until(io, all.replica.url(), redis::command{"ROLE"},
            [](const redis::reply& r) { return r.elements().front().text() == "master"; });
  ask_until(io, all.master.url(), redis::command{"ROLE"},
            [](const redis::reply& r) { return r.elements().front().text() == "slave"; });
  // From here on grants come from the new one only.
  for (auto* m : {&a, &b}) {
    run_until(io, [&] {
      try {
        return run(io, m->client.run("CONFIG", "GET", "port")).elements().at(1).text() == all.ports[1];
      } catch (const std::system_error&) {
        return false;  // on its way
      }
    });
  }
  one.granted = two.granted = 0;
  run_until(io, [&] { return one.granted > 20 && two.granted > 20; });
  CHECK(tasks.most == 2);
  tasks.is_ending = true;
  run_until(io, [&] { return tasks.running == 0; });
}

TEST_CASE("a master that the others know no more, and that may not write alone, is left for the new one [realtime]",
          "[realtime]") {
  auto [all, io, a, b] = two_members<net::io_context, cluster>{two_short_leases};
  // On a slow machine the replica may be behind; it counts as long as it is connected.
  ask_until(io, all.master.url(), redis::command{"CONFIG", "SET", "min-replicas-max-lag", 3600},
            [](const redis::reply& r) { return r.text() == "OK"; });
  ask_until(io, all.master.url(), redis::command{"CONFIG", "SET", "min-replicas-to-write", 1},
            [](const redis::reply& r) { return r.text() == "OK"; });
  for (auto* m : {&a, &b}) CHECK(run(io, m->slots.acquire()).held() == 1);

  // As if the line between it and the others were cut: the replica follows nobody, and the sentinel watches that one.
  all.sentinel->kill();
  ask_until(io, all.replica.url(), redis::command{"REPLICAOF", "NO", "ONE"},
            [](const redis::reply& r) { return r.text() == "OK"; });
  all.start_sentinel(1);
  ask_until(io, all.master.url(), redis::command{"INFO", "replication"},
            [](const redis::reply& r) { return r.text().find("min_slaves_good_slaves:0") != std::string::npos; });
  for (auto* m : {&a, &b}) {
    CHECK(run(io, m->slots.acquire()).held() == 1);
    CHECK(run(io, m->client.run("CONFIG", "GET", "port")).elements().at(1).text() == all.ports[1]);
  }
}
