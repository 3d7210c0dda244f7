// What a client promises of its connection: when it is given up, kept and made again. Nothing waits for real time.
#include "../lib/redis/engine.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/client.hpp"

#include "redis/asked.hpp"
#include "redis/member.hpp"
#include "redis/puppet.hpp"
#include "redis/stopped_clock.hpp"
#include "support/catch.hpp"

#include <asio/cancellation_type.hpp>
#include <asio/error.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

using namespace redis_test;
using namespace std::chrono_literals;

namespace engine_test {

using canigo::duration;
using canigo::time_point;
using redis::command;

/// A client and its server, while time stands.
struct line {
  explicit line(const redis::client_options& o = {}) : client{time.io, server.url(), o} {}

  void until_heard(std::size_t connection, std::string_view word) {
    run_until(time.io, [&] { return server.connections() >= connection && server.has_heard(connection, word); });
  }
  void until_ended(const asked& a) {
    run_until(time.io, [&] { return a.ends != 0; });
  }
  void until_closed(std::size_t connection) {
    run_until(time.io, [&] { return !server.is_open(connection); });
  }
  void until_connected(std::size_t count) {
    run_until(time.io, [&] { return server.connections() == count; });
  }
  /// So that what is to happen at this moment does.
  void settle() { run_for(time.io, 3ms); }
  /// A command that is answered, on that connection.
  void exchange(std::size_t connection, const std::string& word) {
    asked a{client, command{"GET", word}};
    until_heard(connection, word);
    server.say(connection, "+" + word + "\r\n");
    until_ended(a);
    CHECK_FALSE(a.ec);
    CHECK(a.text == word);
  }

  stopped_clock time;
  puppet server{time.io};
  redis::client client;
};

constexpr auto no_limit = duration::max();

TEST_CASE("a server that answers others has a second more for a command, and costs no connection if it takes less") {
  line l;
  asked a{l.client, command{"GET", "a"}};
  asked b{l.client, command{"GET", "b"}.with_timeout(1s)};
  l.until_heard(1, "b");
  l.time.advance(900ms);
  l.server.say(1, "+for a\r\n");
  l.until_ended(a);
  CHECK(a.text == "for a");
  l.time.advance(100ms);
  l.until_ended(b);
  CHECK(b.ec == errc::timed_out);
  l.time.advance(899ms);
  l.settle();
  REQUIRE(l.server.is_open(1));
  SECTION("it answers") {
    l.server.say(1, "+for b\r\n");
    run_until(l.time.io, [&] { return l.client.stats().in_flight == 0; });
    l.time.pass(1min);
    l.exchange(1, "go");
    CHECK(l.client.stats().connects == 1);
    CHECK(l.client.stats().failures == 0);
  }
  SECTION("it does not") {
    l.time.advance(1ms);
    l.until_closed(1);
    CHECK(l.client.stats().failures == 1);
  }
}

TEST_CASE("a connection on which a command was not answered in time is given up, after a second at the latest") {
  struct {
    duration timeout;
    duration given_up;
  } const cases[]{{50ms, 50ms}, {999ms, 999ms}, {3s, 3s}};
  for (const auto& c : cases) {
    CAPTURE(c.timeout.count());
    line l{{.reconnect = canigo::backoff::constant(10s)}};
    l.exchange(1, "first");  // and those that were answered before change nothing
    asked restated{l.client, command{"GET", "restated"}.with_timeout(no_limit).set_is_restated(true)};
    l.until_heard(1, "restated");
    asked lost{l.client, command{"GET", "lost"}.with_timeout(c.timeout)};
    l.until_heard(1, "lost");
    l.time.advance(c.timeout - 1ms);
    l.settle();
    CHECK(lost.ends == 0);
    CHECK(l.server.is_open(1));
    l.time.advance(1ms);
    l.until_closed(1);
    l.until_ended(restated);
    CHECK(lost.ec == errc::timed_out);
    CHECK(restated.ec == redis::error::connection_lost);
    CHECK(l.client.stats().failures == 1);
    CHECK(l.client.stats().last_error.find("connection was lost") != std::string::npos);
    // It is made again after the delay.
    asked next{l.client, command{"GET", "next"}.with_timeout(no_limit)};
    l.time.advance(10s - 1ms);
    l.settle();
    CHECK(l.server.connections() == 1);
    l.time.advance(1ms);
    l.until_heard(2, "next");
    CHECK(l.client.stats().last_error.empty());
    l.server.say(2, "+here\r\n");
    l.until_ended(next);
    CHECK(next.text == "here");
  }
}

TEST_CASE("what others wait for on a silent connection has as long as a connection may take, whoever asks meanwhile") {
  line l{{.connect_timeout = 5s, .timeout = no_limit}};
  asked patient{l.client, command{"GET", "patient"}};
  asked lost{l.client, command{"GET", "lost"}.with_timeout(50ms)};
  l.until_heard(1, "lost");
  l.time.advance(50ms);
  asked later{l.client, command{"GET", "later"}};
  l.until_ended(lost);
  l.until_heard(1, "later");
  l.time.advance(5s - 51ms);
  l.settle();
  CHECK(l.server.is_open(1));
  CHECK(later.ends == 0);
  l.time.advance(1ms);
  l.until_closed(1);
  l.until_ended(later);
  CHECK(patient.ec == redis::error::connection_lost);
  CHECK(later.ec == redis::error::connection_lost);
}

TEST_CASE("a connection that was lost counts no more for the next one") {
  line l{{.reconnect = canigo::backoff::constant(0s)}};
  asked cancelled{l.client, command{"GET", "cancelled"}};
  asked first{l.client, command{"GET", "first"}};
  l.until_heard(1, "first");
  cancelled.cancel.emit(net::cancellation_type::total);
  l.until_ended(cancelled);
  l.server.hang_up(1);
  l.until_ended(first);
  CHECK(first.ec == redis::error::connection_lost);
  // One waits there, and is waited for: it is neither forgotten nor are there others.
  asked slow{l.client, command{"GET", "slow"}};
  l.until_heard(2, "slow");
  l.time.advance(4s);
  l.settle();
  CHECK(l.server.is_open(2));
  l.server.say(2, "+slow\r\n");
  l.until_ended(slow);
  asked lost{l.client, command{"GET", "lost"}.with_timeout(50ms)};
  l.until_heard(2, "lost");
  l.time.advance(50ms);
  l.until_closed(2);
}

TEST_CASE("a command whose caller has gone costs no connection if its answer comes in time") {
  line l;
  asked gone{l.client, command{"GET", "gone"}};
  l.until_heard(1, "gone");
  gone.cancel.emit(net::cancellation_type::total);
  l.until_ended(gone);
  CHECK(gone.ec == net::error::operation_aborted);
  l.time.advance(999ms);
  l.settle();
  REQUIRE(l.server.is_open(1));
  l.server.say(1, "+for nobody\r\n");
  run_until(l.time.io, [&] { return l.client.stats().in_flight == 0; });
  // The next one has all the time that it may take.
  asked slow{l.client, command{"GET", "slow"}};
  l.until_heard(1, "slow");
  l.time.advance(2s);
  l.settle();
  l.time.advance(2s);
  l.settle();
  l.server.say(1, "+slow\r\n");
  l.until_ended(slow);
  CHECK(slow.text == "slow");
  CHECK(l.client.stats().connects == 1);
  CHECK(l.client.stats().failures == 0);
}

TEST_CASE("an answer for nobody is waited for a second at most, or the time of a command, or a slow line's") {
  struct {
    duration timeout;
    duration round_trip;
    duration patience;
  } const cases[]{{5s, 0s, 1s}, {100ms, 0s, 100ms}, {5s, 400ms, 1200ms}};
  for (const auto& c : cases) {
    CAPTURE(c.timeout.count(), c.round_trip.count());
    line l{{.timeout = c.timeout}};
    l.server.set_greeting("");
    asked gone{l.client, command{"GET", "gone"}};
    l.until_heard(1, "server");
    l.time.advance(c.round_trip);
    l.server.say(1, usual_greeting);
    l.until_heard(1, "gone");
    gone.cancel.emit(net::cancellation_type::total);
    l.until_ended(gone);
    l.time.advance(c.patience - 1ms);
    l.settle();
    CHECK(l.server.is_open(1));
    l.time.advance(1ms);
    l.until_closed(1);
    CHECK(l.time.clock.next() == time_point::max());  // nothing keeps the loop running
  }
}

TEST_CASE("a command behind ASKING takes the second answer, and the first is not waited for afterwards") {
  line l;
  asked a{l.client, command{"GET", "a"}.set_asks_first(true)};
  l.until_heard(1, "a");
  CHECK(l.server.heard(1).ends_with(command{"ASKING"}.encoded() + command{"GET", "a"}.encoded()));
  l.server.say(1, "+OK\r\n+for a\r\n");
  l.until_ended(a);
  CHECK(a.text == "for a");
  asked gone{l.client, command{"GET", "gone"}};
  l.until_heard(1, "gone");
  gone.cancel.emit(net::cancellation_type::total);
  l.until_ended(gone);
  l.time.advance(1s);
  l.until_closed(1);
}

TEST_CASE("a command that the next one restates has its whole time from when it is sent, others from the call") {
  for (const bool is_restated : {false, true}) {
    CAPTURE(is_restated);
    line l;
    l.server.set_greeting("");
    asked a{l.client, command{"GET", "a"}.with_timeout(1s).set_is_restated(is_restated)};
    l.until_heard(1, "server");
    l.time.advance(600ms);
    l.server.say(1, usual_greeting);
    l.until_heard(1, "a");
    const duration left = is_restated ? 1s : 400ms;
    l.time.advance(left - 1ms);
    l.settle();
    CHECK(a.ends == 0);
    l.time.advance(1ms);
    l.until_ended(a);
    CHECK(a.ec == errc::timed_out);
  }
}

TEST_CASE("a connection that nobody waits for goes on being made for 3 s, and for 1 s after the last who waited") {
  struct {
    duration patience;
    std::optional<duration> next;  // another one asks then, with the same patience
    duration end;
  } const cases[]{{10ms, {}, 3s}, {5s, {}, 6s}, {2s, 1500ms, 4500ms}, {1s, 2500ms, 4500ms}};
  for (const auto& c : cases) {
    CAPTURE(c.patience.count(), c.end.count());
    line l{{.connect_timeout = 1h}};
    l.server.set_greeting("");
    const auto begin = l.time.clock.now();
    const auto pass_until = [&](duration d) {
      l.time.advance(begin + d - l.time.clock.now());
      l.settle();
    };
    asked a{l.client, command{"PING"}.with_timeout(c.patience)};
    l.until_heard(1, "server");
    std::optional<asked> b;
    if (c.next && *c.next < c.patience) {
      pass_until(*c.next);
      b.emplace(l.client, command{"PING"}.with_timeout(c.patience));
    }
    pass_until(c.patience);
    l.until_ended(a);
    CHECK(a.ec == errc::store_unavailable);
    if (c.next) {
      pass_until(*c.next);
      if (!b) b.emplace(l.client, command{"PING"}.with_timeout(c.patience));
      l.settle();
      pass_until(*c.next + c.patience);
      l.until_ended(*b);
      CHECK(b->ec == errc::store_unavailable);
    }
    pass_until(c.end - 1ms);
    CHECK(l.server.is_open(1));
    pass_until(c.end);
    l.until_closed(1);
    CHECK(l.server.connections() == 1);
    CHECK(l.client.stats().connects == 0);
    CHECK(l.client.stats().last_error.find(make_error_code(errc::timed_out).message()) != std::string::npos);
    run_until(l.time.io, [&] { return l.time.clock.next() == time_point::max(); });
  }
}

TEST_CASE("a connection that was being made for nobody serves who asks next") {
  line l{{.connect_timeout = 1h}};
  l.server.set_greeting("");
  asked a{l.client, command{"PING"}.with_timeout(10ms)};
  l.until_heard(1, "server");
  l.time.advance(10ms);
  l.until_ended(a);
  l.time.advance(2900ms);
  l.settle();
  l.server.say(1, usual_greeting);
  l.exchange(1, "go");
  CHECK(l.client.stats().connects == 1);
}

TEST_CASE("a server that became a replica is left with a cause of its own, and asked again after the delay") {
  line l{{.reconnect = canigo::backoff::constant(10s)}};
  l.server.set_greeting(loading_greeting);
  asked a{l.client, command{"SET", "a"}.with_timeout(no_limit)};
  run_until(l.time.io, [&] { return l.client.stats().failures == 1; });
  CHECK(l.client.stats().last_error.find("LOADING") != std::string::npos);
  l.server.set_greeting(usual_greeting);
  l.time.advance(10s);
  l.until_heard(2, "a");
  CHECK(l.client.stats().last_error.empty());
  l.server.say(2, "-READONLY it is a replica\r\n");
  l.until_ended(a);
  l.until_closed(2);
  CHECK(a.ec == redis::error::read_only);
  CHECK(l.client.stats().failures == 2);
  CHECK(l.client.stats().last_error.find("connection was lost") != std::string::npos);
  CHECK(l.client.stats().last_error.find("LOADING") == std::string::npos);
  asked b{l.client, command{"SET", "b"}.with_timeout(no_limit)};
  l.time.advance(10s - 1ms);
  l.settle();
  CHECK(l.server.connections() == 2);
  l.time.advance(1ms);
  l.until_heard(3, "b");
}

TEST_CASE("attempts are made ever more seldom up to the cap, and an answer begins anew") {
  const canigo::backoff doubling{.first = 1s, .cap = 4s, .jitter = canigo::jitter::none};
  line l{{.timeout = no_limit, .reconnect = doubling}};
  std::size_t attempts = 1;
  const auto next_after = [&](duration d) {
    l.settle();
    l.time.advance(d - 1ms);
    l.settle();
    CHECK(l.server.connections() == attempts);
    l.time.advance(1ms);
    l.until_connected(++attempts);
  };
  l.server.set_greeting(loading_greeting);
  asked a{l.client, command{"GET", "a"}};
  l.until_connected(1);
  l.until_closed(1);
  for (const duration delay : {1s, 2s, 4s}) {
    next_after(delay);
    l.until_closed(attempts);
  }
  l.server.set_greeting(usual_greeting);
  next_after(4s);
  // One that lets us in and hangs up is no better.
  l.until_heard(attempts, "a");
  l.server.hang_up(attempts);
  l.until_ended(a);
  CHECK(a.ec == redis::error::connection_lost);
  asked b{l.client, command{"GET", "b"}};
  next_after(4s);
  l.until_heard(attempts, "b");
  l.server.say(attempts, "+b\r\n");
  l.until_ended(b);
  CHECK(b.text == "b");
  asked c{l.client, command{"GET", "c"}};
  l.until_heard(attempts, "c");
  l.server.hang_up(attempts);
  l.until_ended(c);
  asked d{l.client, command{"GET", "d"}};
  next_after(1s);
}

TEST_CASE("a server that hangs up once it has greeted is asked ever more seldom, too") {
  line l{{.timeout = no_limit, .reconnect = {.first = 1s, .cap = 2s, .jitter = canigo::jitter::none}}};
  l.server.set_rude(true);
  asked a{l.client, command{"GET", "a"}};
  std::size_t attempts = 1;
  l.until_connected(1);
  for (const duration delay : {1s, 2s, 2s}) {
    l.until_closed(attempts);
    l.settle();
    CHECK(l.client.stats().failures == attempts);
    CHECK_FALSE(l.client.stats().last_error.empty());
    l.time.advance(delay - 1ms);
    l.settle();
    CHECK(l.server.connections() == attempts);
    l.time.advance(1ms);
    l.until_connected(++attempts);
  }
  l.server.set_rude(false);
  l.until_heard(attempts, "a");
  l.server.say(attempts, "+a\r\n");
  l.until_ended(a);
  CHECK(a.text == "a");
}

TEST_CASE("the delay after an attempt counts from its beginning") {
  line l{{.connect_timeout = 3s, .timeout = no_limit, .reconnect = canigo::backoff::constant(4s)}};
  l.server.set_greeting("");
  asked a{l.client, command{"GET", "a"}};
  l.until_heard(1, "server");
  l.time.advance(3s);
  l.until_closed(1);
  l.time.advance(1s - 1ms);
  l.settle();
  CHECK(l.server.connections() == 1);
  l.time.advance(1ms);
  l.until_connected(2);
}

TEST_CASE("only the first of those that wait is told what was wrong with an answer") {
  line l;
  asked a{l.client, command{"GET", "a"}};
  asked b{l.client, command{"GET", "b"}};
  l.until_heard(1, "b");
  l.server.say(1, "?what\r\n");
  l.until_ended(b);
  CHECK(a.ec == redis::error::bad_reply);
  CHECK(b.ec == redis::error::connection_lost);
}

TEST_CASE("a line is as slow as its login, then as its answers, and a new connection takes twice as long to answer") {
  line l;
  const auto& engine = redis::detail::engine_of(l.client);
  CHECK(engine.answer_within() == 0s);
  l.server.set_greeting("");
  asked a{l.client, command{"GET", "a"}};
  l.until_heard(1, "server");
  l.time.advance(200ms);
  l.server.say(1, usual_greeting);
  l.until_heard(1, "a");
  CHECK(engine.shortest_round_trip() == 200ms);
  CHECK(engine.answer_within() == 600ms);
  l.server.say(1, "+a\r\n");
  l.until_ended(a);
  CHECK(engine.shortest_round_trip() == 0s);
  for (const std::string word : {"b", "c", "d", "e"}) {
    asked next{l.client, command{"GET", word}};
    l.until_heard(1, word);
    l.time.advance(100ms);
    l.server.say(1, "+x\r\n");
    l.until_ended(next);
  }
  CHECK(engine.shortest_round_trip() == 100ms);
  CHECK(engine.answer_within() == 300ms);
  asked last{l.client, command{"GET", "last"}};
  l.until_heard(1, "last");
  l.server.hang_up(1);
  l.until_ended(last);
  CHECK(engine.answer_within() == 600ms);
}

TEST_CASE("commands count against the limit whether they wait for a connection or for an answer") {
  line l{{.queue_limit = 3}};
  asked a{l.client, command{"GET", "a"}};
  l.until_heard(1, "a");
  asked b{l.client, command{"GET", "b"}};
  asked c{l.client, command{"GET", "c"}};
  asked d{l.client, command{"GET", "d"}};
  l.until_ended(d);
  CHECK(d.ec == errc::queue_full);
  l.until_heard(1, "c");
  asked e{l.client, command{"GET", "e"}};
  l.until_ended(e);
  CHECK(e.ec == errc::queue_full);
  l.server.say(1, "+a\r\n+b\r\n+c\r\n");
  l.until_ended(c);
  CHECK_FALSE(b.ec);
  l.exchange(1, "f");
}

}  // namespace engine_test
