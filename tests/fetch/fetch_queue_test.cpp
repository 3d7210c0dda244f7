// How many calls canigo-fetch has under way at a server with --adaptive, in virtual time.

#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>

#include "../tools/fetch/call_queue.hpp"
#include "support/catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

using namespace std::chrono_literals;
namespace net = canigo::net;

namespace {

/// A server that works on four calls at a time, 10 ms on each, and a client that always has another one.
struct busy_server {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  fetch::call_queue queue;
  std::size_t running = 0;
  std::size_t most = 0;
  std::size_t answers = 0;
  std::size_t next = 0;
  canigo::time_point free_at[4] = {};

  bool has_more = true;

  busy_server(std::size_t connections, bool is_adaptive)
      : queue{io.get_executor(), 1, 1000, 1e9, {.rate = {}, .connections = connections, .is_adaptive = is_adaptive}} {}

  net::awaitable<void> make(fetch::call c) {
    most = std::max(most, ++running);
    auto& place = *std::ranges::min_element(free_at);
    place = std::max(place, time.now()) + 10ms;
    co_await canigo::sleep_until(place);
    --running;
    ++answers;
    fetch::server& s = queue.server_of(c);
    c.place_at_server.succeeded();
    queue.done(s, time.now());
    let_go();
  }

  void let_go() {
    while (auto c = queue.take(time.now())) {
      if (has_more) add();
      net::co_spawn(io, make(std::move(*c)), net::detached);
    }
  }

  void add() {
    fetch::call c;
    c.order = ++next;
    c.url = "http://127.0.0.1/";
    queue.add(std::move(c));
  }

  /// The most calls that were under way in the second half of a minute.
  std::size_t most_in_a_while() {
    for (int i = 0; i < 100; ++i) add();
    let_go();
    time.run_for(30s);
    most = 0;
    time.run_for(30s);
    return most;
  }
};

}  // namespace

TEST_CASE("an adaptive number of calls is near what the server works on at a time") {
  busy_server server{64, true};
  CHECK(server.most_in_a_while() <= 12);
  CHECK(server.answers >= 60 * 400 * 95 / 100);
}

TEST_CASE("without an adaptive number all connections are used") {
  busy_server server{64, false};
  CHECK(server.most_in_a_while() == 64);
}

TEST_CASE("an adaptive number stays below that of the connections") {
  busy_server server{3, true};
  CHECK(server.most_in_a_while() <= 3);
  CHECK(server.answers > 60 * 300 * 80 / 100);
}

TEST_CASE("a server that nobody has asked for a while keeps its number of calls") {
  busy_server server{64, true};
  server.most_in_a_while();
  server.has_more = false;
  server.time.run();
  REQUIRE(server.queue.waiting() == 0);
  REQUIRE(server.running == 0);
  for (int i = 0; i < 100; ++i) server.add();
  server.let_go();
  server.time.poll();
  CHECK(server.running <= 12);
}
