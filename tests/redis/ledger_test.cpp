// What a limit says to Redis, word by word, and what it makes of each answer and message. Time stands, and a puppet
// plays Redis.
#include "canigo/error.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "../lib/redis/engine.hpp"
#include "redis/asked.hpp"
#include "redis/scene.hpp"
#include "support/catch.hpp"
#include "support/fickle_executor.hpp"
#include "support/said_by.hpp"

#include <asio/awaitable.hpp>
#include <asio/cancellation_type.hpp>
#include <asio/co_spawn.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;

namespace ledger_test {

const redis::semaphore_options three_places{
    .permits = 3, .lease = 1min, .priorities = 2, .give_up = 1h, .quarantine = false};

TEST_CASE("a call says all that the process has, and what it knows of Redis") {
  scene s;
  redis::semaphore slots{s.client, "crm", three_places};
  waiting w{slots, {.priority = 1, .tokens = 2}};
  const call first = s.until_call(1);
  CHECK(first.said.at(0) == "EVALSHA");
  CHECK(first.said.at(9) == "{canigo:default:crm}:s:");
  CHECK(first.said.at(3) == "{canigo:default:crm}:s:state");
  CHECK(first.said.at(6).starts_with("fake????"));
  CHECK(first.session().ends_with(":1"));
  CHECK(first.flags().empty());
  CHECK(first.sequence() == 1);
  CHECK(first.lease() == 60'000'000);
  CHECK(first.held() == 0);
  CHECK(first.permits() == 3);
  CHECK(first.seen() == 0);
  CHECK(first.latest() == 0);
  CHECK(first.epoch() == 0);
  CHECK(first.lists({1, 1, 1, 2}));
  s.answer({.held = 2, .runs = {{1, 1, 2, 777}}});
  s.until_ended(w);
  CHECK_FALSE(*w.ec);
  CHECK(w.p.token() == 777);
  CHECK(w.p.held() == 2);
  waiting next{slots, {}};
  const call second = s.until_call(2);
  CHECK(second.session() == first.session());
  CHECK(second.sequence() == 2);
  CHECK(second.held() == 2);
  CHECK(second.seen() == 777);
  CHECK(second.latest() >= 1'000'000);
  CHECK(second.epoch() == 5);
  CHECK(second.lists({1, 1, 2, 1, 0, 1}));  // the grant has arrived
  s.answer({.queue = 1, .held = 2});
  s.settle();
  w.p.release();
  next.cancel.emit(net::cancellation_type::total);
  s.until_ended(next);
  const call third = s.until_call(3);
  CHECK(third.held() == 0);
  CHECK(third.lists({2, 1}));  // one has left
  CHECK(third.count(1) == 1);
  s.answer();
  s.settle();
  slots.stop();
  CHECK(s.until_call(4).flags() == "l");
}

TEST_CASE("a limit that is to be quarantined says so, and says how long that lasts") {
  scene s;
  redis::semaphore slots{s.client, "crm", {.permits = 1, .lease = 1min}};
  waiting w{slots, {}};
  CHECK(s.serve(1, {.queue = 1, .quarantine = 9'000'000}).flags() == "q");
  CHECK(slots.stats().quarantine == 9s);
  CHECK(slots.stats().waiting_of_all == 1);
}

TEST_CASE("requests that are granted together have tokens that follow each other, and what they weigh") {
  scene s;
  redis::semaphore slots{s.client, "crm", three_places};
  waiting a{slots, {}}, b{slots, {}}, c{slots, {.tokens = 3}}, d{slots, {.priority = 1}};
  const call first = s.until_call(1);
  CHECK(first.lists({1, 2, 0, 1, 3, 1, 0, 3, 4, 1, 1, 1}));
  s.answer({.held = 2, .runs = {{1, 2, 1, 100}, {3, 1, 3, 0}}});
  s.until_ended(c);
  CHECK(a.p.token() == 100);
  CHECK(b.p.token() == 101);
  CHECK(*c.ec == errc::too_large);
  CHECK_FALSE(d.ended());
  // A renewal says what has arrived, and takes nothing back. Those that were refused are forgotten there.
  d.cancel.emit(net::cancellation_type::total);
  const call second = s.until_call(2);
  CHECK(second.lists({1, 2, 4, 1}));
  CHECK(second.held() == 2);
}

TEST_CASE("a script that Redis has forgotten is sent once, as the same call, and named again afterwards") {
  scene s;
  redis::semaphore slots{s.client, "crm", three_places};
  waiting w{slots, {}};
  const call first = s.until_call(1);
  s.server.say(1, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
  const call second = s.until_call(2);
  CHECK(second.said.at(0) == "EVAL");
  CHECK(second.sequence() == first.sequence());
  CHECK(second.lists({1, 1, 0, 1}));
  s.answer({.held = 1, .runs = {{1, 1, 1, 7}}});
  s.until_ended(w);
  w.p.release();
  const call third = s.until_call(3);
  CHECK(third.said.at(0) == "EVALSHA");
  CHECK(third.sequence() == second.sequence() + 1);
  CHECK(slots.stats().available);
}

TEST_CASE("a limit follows five redirections in a row, however many there were before, and no more") {
  scene s;
  const std::string moved = "-MOVED 1 127.0.0.1:" + s.server.url().substr(s.server.url().rfind(':') + 1) + "\r\n";
  redis::semaphore slots{s.client, "crm", three_places};
  std::size_t answered = 0, moves = 0;
  // Answers in their order, as long as there are commands.
  const auto play = [&](std::size_t most_moves) {
    const auto all = s.commands();
    for (; answered < all.size(); ++answered) {
      const bool is_call = all[answered].front().starts_with("EVAL");
      const bool moves_on = is_call && moves < most_moves;
      moves += moves_on ? 1 : 0;
      s.server.say(1, !is_call ? "*0\r\n" : moves_on ? moved : script_answer{}.text());
    }
  };
  for (std::uint64_t round = 1; round <= 3; ++round) {
    moves = 0;
    slots.resize(3 + round);
    run_until(s.time.io, [&] {
      play(5);
      return slots.stats().round_trips == round;
    });
    CHECK(moves == 5);
    CHECK(slots.stats().failed_calls == 5 * round);
    CHECK(slots.stats().available);
  }
  moves = 0;
  slots.resize(10);
  run_until(s.time.io, [&] {
    play(6);
    return !slots.stats().available;
  });
  CHECK(slots.stats().last_error_code == redis::error::moved);
}

TEST_CASE("every request counts once, by its end and by its class") {
  scene s;
  redis::semaphore_options o = three_places;
  o.queue_limit = 4;
  redis::semaphore slots{s.client, "crm", o};
  const auto begin = s.time.clock.now();
  waiting granted{slots, {.priority = 1}};
  waiting late{slots, {.deadline = begin + 1s}};
  waiting cancelled{slots, {}};
  waiting stays{slots, {.priority = 1}};
  waiting one_too_many{slots, {}};
  waiting too_large{slots, {.tokens = 4}};
  waiting of_no_class{slots, {.priority = 2}};
  s.until_call(1);
  s.time.advance(300ms);
  s.answer({.queue = 3, .held = 1, .runs = {{1, 1, 1, 7}}});
  s.until_ended(granted);
  CHECK(slots.stats().round_trip.count() == 1);
  CHECK(slots.stats().round_trip.max() == 300ms);
  s.time.advance(700ms);
  s.until_ended(late);
  CHECK(*late.ec == errc::timed_out);
  cancelled.cancel.emit(net::cancellation_type::total);
  s.until_ended(cancelled);
  s.until_ended(of_no_class);
  CHECK(*one_too_many.ec == errc::queue_full);
  CHECK(*too_large.ec == errc::too_large);
  CHECK(*of_no_class.ec == errc::invalid_priority);
  auto stats = slots.stats();
  CHECK(stats.requested == 7);
  CHECK(stats.granted == 1);
  CHECK(stats.timed_out == 1);
  CHECK(stats.cancelled == 1);
  CHECK(stats.rejected == 3);
  CHECK(stats.stopped == 0);
  CHECK(stats.waiting == 1);
  REQUIRE(stats.classes.size() == 2);
  CHECK(stats.classes[0].waiting == 0);
  CHECK(stats.classes[1].waiting == 1);
  CHECK(stats.classes[0].granted == 0);
  CHECK(stats.classes[1].granted == 1);
  CHECK(stats.classes[1].wait.count() == 1);
  CHECK(stats.classes[1].wait.max() == 300ms);
  CHECK(stats.held == 1);
  CHECK(stats.held_by_all == 1);
  slots.stop();
  s.until_ended(stays);
  stats = slots.stats();
  CHECK(*stays.ec == errc::stopped);
  CHECK(stats.stopped == 1);
  CHECK(stats.waiting == 0);
  CHECK(stats.requested == 7);
}

TEST_CASE("what can't wait for a late call is decided without Redis, and what comes then at once") {
  scene s;
  redis::scheduler quota{s.client, "crm", {.rate = rate::per_day(1), .on_failure = redis::failure_mode::open()}};
  std::optional<bool> got;
  const auto ask = [&] {
    got.reset();
    net::co_spawn(s.time.io, quota.acquire_now(), [&](std::exception_ptr, bool b) { got = b; });
  };
  ask();
  s.until_call(1);
  s.time.advance(200ms - 1ns);
  s.settle();
  CHECK_FALSE(got.has_value());
  s.time.advance(1ns);
  for (const std::uint64_t granted : {1U, 2U}) {
    run_until(s.time.io, [&] { return got.has_value(); });
    CHECK(*got);
    CHECK(quota.stats().granted_locally == granted);
    CHECK(quota.stats().classes.at(0).wait.max() == 200ms);
    if (granted == 1) ask();
  }
}

TEST_CASE("one that can't wait is told no behind one who waits here, without a word to Redis") {
  scene s;
  redis::semaphore slots{s.client, "crm", three_places};
  waiting w{slots, {.tokens = 3}};
  s.serve(1, {.queue = 1, .held = 1});
  const std::size_t calls = s.calls();
  std::optional<bool> got;
  net::co_spawn(s.time.io, slots.acquire_now(),
                [&](std::exception_ptr, const std::optional<redis::permit>& p) { got = p.has_value(); });
  run_until(s.time.io, [&] { return got.has_value(); });
  CHECK_FALSE(*got);
  s.settle();
  CHECK(s.calls() == calls);
}

TEST_CASE("one that can't wait takes no place in a full queue, and is told no there") {
  scene s;
  auto o = three_places;
  o.queue_limit = 1;
  redis::semaphore slots{s.client, "crm", o};
  waiting w{slots, {.tokens = 3}};
  s.serve(1, {.queue = 1, .held = 1});
  std::exception_ptr failure;
  std::optional<bool> got;
  net::co_spawn(s.time.io, slots.acquire_now(), [&](std::exception_ptr e, const std::optional<redis::permit>& p) {
    failure = e;
    got = p.has_value();
  });
  run_until(s.time.io, [&] { return got.has_value(); });
  CHECK_FALSE(*got);
  CHECK_FALSE(failure);
}

TEST_CASE("a charge is told although its limit goes at once") {
  scene s;
  {
    redis::scheduler quota{s.client, "crm", {.rate = rate::per_hour(1), .burst = 10}};
    quota.charge(3);
  }
  const call last = s.serve(1);
  CHECK(last.charged() == 3);
  CHECK(last.flags().find('l') != std::string::npos);
}

TEST_CASE("while Redis is away what is wrong with a request is said, and nothing else") {
  scene s;
  s.server.set_greeting(loading_greeting);
  redis::semaphore slots{s.client, "crm", three_places};
  waiting w{slots, {}};
  s.time.pass_until([&] { return !slots.stats().available; });
  CHECK(slots.stats().last_error.find("LOADING") != std::string::npos);
  const auto [bad_class, first] = s.refusal(slots, {.priority = 2});
  CHECK(bad_class == errc::invalid_priority);
  CHECK(first.find("LOADING") == std::string::npos);
  const auto [too_large, second] = s.refusal(slots, {.tokens = 4});
  CHECK(too_large == errc::too_large);
  CHECK(second.find("LOADING") == std::string::npos);
  CHECK(s.refusal(slots, {.deadline = s.time.clock.now() - 1ns}).first == errc::deadline_unreachable);
  const auto [away, third] = s.refusal(slots, {.deadline = s.time.clock.now() + 1s});
  CHECK(away == errc::store_unavailable);
  CHECK(third.find("LOADING") != std::string::npos);
}

TEST_CASE("a round trip that the lease does not stand is named where a call fails for it, and only there") {
  for (const bool is_slow : {false, true}) {
    CAPTURE(is_slow);
    scene s{{.connect_timeout = 1h}};
    s.server.set_greeting("");
    asked ping{s.client, redis::command{"PING"}.with_timeout(1h)};
    run_until(s.time.io, [&] { return s.server.connections() == 1 && s.server.has_heard(1, "server"); });
    s.time.advance(9s + (is_slow ? 1ms : 0ms));
    s.server.say(1, usual_greeting);
    redis::semaphore slots{s.client, "crm", {.permits = 1, .lease = 20s, .give_up = 1h, .quarantine = false}};
    waiting w{slots, {}};
    s.until_call(1);
    CHECK(s.refusal(slots, {.tokens = 2}).second.find("round trip") == std::string::npos);
    const auto [past, said] = s.refusal(slots, {.deadline = s.time.clock.now() - 1ns});
    CHECK(past == errc::deadline_unreachable);
    CHECK(said.find("round trip") == std::string::npos);
    s.time.advance(9s);
    run_until(s.time.io, [&] { return !slots.stats().available; });
    CHECK(slots.stats().last_error_code == errc::timed_out);
    const std::string text = slots.stats().last_error;
    CAPTURE(text);
    CHECK((text.find("round trip") != std::string::npos) == is_slow);
    if (is_slow) CHECK(text.find("a round trip takes 9001ms, and a lease of 20s stands 9s") != std::string::npos);
    CHECK_FALSE(w.ended());
  }
}

TEST_CASE("who waits in vain because of such a line is told of it") {
  scene s;
  redis::semaphore slots{s.client, "crm", {.permits = 1, .lease = 400ms, .give_up = 1h, .quarantine = false}};
  std::optional<std::error_code> ec;
  std::string text;
  net::co_spawn(s.time.io, slots.acquire({.deadline = s.time.clock.now() + 500ms}),
                [&](std::exception_ptr failure, const redis::permit&) {
                  try {
                    if (failure) std::rethrow_exception(failure);
                    ec.emplace();
                  } catch (const std::system_error& e) {
                    ec = e.code();
                    text = said_by(e);
                  }
                });
  s.until_call(1);
  // A lease has a clock of its own.
  for (const auto begin = steady::now(); steady::now() - begin < 181ms;) s.settle();
  s.answer({.queue = 1, .held = 1});
  run_until(s.time.io, [&] { return slots.stats().round_trips == 1; });
  CHECK(slots.stats().last_error_code == errc::timed_out);
  s.time.advance(500ms);
  run_until(s.time.io, [&] { return ec.has_value(); });
  CHECK(*ec == errc::timed_out);
  CAPTURE(text);
  CHECK(text.find("a round trip takes") != std::string::npos);
  CHECK(text.find("a lease of 400ms stands 180ms at most") != std::string::npos);
}

TEST_CASE("what is kept may be had at the last moment, and once a pause is over, not before") {
  scene s;
  redis::semaphore_options o = three_places;
  o.horizon = 1min;
  redis::semaphore slots{s.client, "crm", o};
  waiting w{slots, {.tokens = 3}};
  s.serve(1, {.held = 3, .runs = {{1, 1, 3, 7}}});
  s.until_ended(w);
  w.p.release();
  REQUIRE(slots.stats().idle == 3);
  const auto now = s.time.clock.now();
  CHECK_FALSE(slots.try_acquire({.deadline = now - 1ns}));
  auto p = slots.try_acquire({.deadline = now});
  REQUIRE(p);
  CHECK(p->token() == 7);
  p->release();
  slots.pause_until(now + 1s);
  CHECK_FALSE(slots.try_acquire());
  s.time.advance(1s - 1ns);
  CHECK_FALSE(slots.try_acquire());
  s.time.advance(1ns);
  CHECK(slots.try_acquire());
  CHECK(slots.stats().idle == 3);
  // Others may want them by now.
  slots.resize(2);
  CHECK(slots.stats().idle == 0);
}

TEST_CASE("who can't be told at once that a permit has ended is told a moment later") {
  scene s;
  redis::semaphore_options o = three_places;
  o.horizon = 1min;
  redis::semaphore slots{s.client, "crm", o};
  waiting w{slots, {}};
  s.serve(1, {.held = 1, .runs = {{1, 1, 1, 7}}});
  s.until_ended(w);
  mood next = mood::posts;
  const net::any_io_executor fickle{fickle_executor{s.time.io, [&] { return std::exchange(next, mood::posts); }}};
  int told = 0;
  // The one between the others is told, and then there is no memory for the rest.
  for (const net::any_io_executor& executor : {net::any_io_executor{s.time.io.get_executor()}, fickle,
                                               net::any_io_executor{s.time.io.get_executor()}}) {
    net::co_spawn(executor, w.p.lost(), [&](const std::exception_ptr&) { ++told; });
  }
  s.settle();
  next = mood::calls_and_throws;
  w.p.release();
  s.settle();
  CHECK(told > 0);
  CHECK(told < 3);
  s.time.advance(canigo::detail::retry_after);
  run_until(s.time.io, [&] { return told == 3; });
}

TEST_CASE("a message ends at once the wait for more than there is any more, or grants it") {
  scene s;
  redis::semaphore_options o = three_places;
  o.horizon = 1min;
  redis::semaphore slots{s.client, "crm", o};
  waiting heavy{slots, {.tokens = 3}};
  waiting light{slots, {}};
  s.serve(1, {.queue = 2, .held = 3});
  const std::string channel = s.until_listening();
  s.say_subscribed(channel);
  s.serve(2, {.queue = 2, .held = 3});
  s.publish(channel, "x 1");
  s.until_ended(heavy);
  CHECK(*heavy.ec == errc::too_large);
  CHECK_FALSE(light.ended());
  CHECK(slots.stats().waiting == 1);
  s.publish(channel, "g 2 8 5");
  s.until_ended(light);
  CHECK_FALSE(*light.ec);
  CHECK(light.p.token() == 8);
}

TEST_CASE("a message may say when to ask again, or that a process elsewhere waits for what lies idle here") {
  scene s;
  redis::semaphore_options o = three_places;
  o.horizon = 1min;
  redis::semaphore slots{s.client, "crm", o};
  waiting w{slots, {}};
  s.serve(1, {.queue = 1, .held = 3});
  const std::string channel = s.until_listening();
  s.say_subscribed(channel);
  s.serve(2, {.queue = 1, .held = 3});
  SECTION("when") {
    s.publish(channel, "t 500000");
    s.time.advance(499ms);
    s.settle();
    CHECK(s.calls() == 2);
    s.time.advance(1ms);
    s.serve(3, {.next = 2'000'000, .queue = 1, .held = 3});
    // An answer says that, too.
    s.time.advance(1999ms);
    s.settle();
    CHECK(s.calls() == 3);
    s.time.advance(1ms);
    s.until_call(4);
  }
  SECTION("that somebody waits") {
    s.publish(channel, "g 1 7 5");
    s.until_ended(w);
    CHECK(w.p.token() == 7);
    s.publish(channel, "h 0");
    s.serve(3, {.held = 3});
    CHECK(slots.stats().waiting_of_all == 0);
    s.publish(channel, "b 0");
    CHECK(slots.stats().waiting_of_all == 1);
    w.p.release();
    CHECK(slots.stats().idle == 0);
    CHECK(s.until_call(4).held() == 0);
  }
}

TEST_CASE("a message that was missed leads to one look at the connection for them in a third of a lease") {
  scene s;
  redis::semaphore slots{s.client, "crm", three_places};
  waiting first{slots, {}};
  s.serve(1, {.queue = 1, .held = 3});
  const std::string channel = s.until_listening();
  s.say_subscribed(channel);
  s.serve(2, {.queue = 1, .held = 3});
  const auto miss = [&](waiting& w, double id) {
    const std::size_t n = s.calls();
    s.publish(channel, "h 0");
    s.serve(n + 1, {.held = 1, .told = 1, .runs = {{id, 1, 1, 7 + id}}});
    s.until_ended(w);
    s.settle();
  };
  waiting second{slots, {}};
  s.serve(3, {.queue = 2, .held = 3});
  waiting third{slots, {}};
  s.serve(4, {.queue = 3, .held = 3});
  CHECK(s.subscriptions() == 1);
  miss(first, 1);
  CHECK(s.until_listening(2) == channel);
  s.say_subscribed(channel);
  if (s.client.stats().in_flight == 1) s.answer({.queue = 2, .held = 3});
  s.settle();
  s.time.advance(20s - 1ms);
  s.settle();
  while (s.client.stats().in_flight == 1) {
    s.answer({.queue = 2, .held = 3});
    s.settle();
  }
  miss(second, 2);
  CHECK(s.subscriptions() == 2);
  s.time.advance(1ms);
  s.settle();
  while (s.client.stats().in_flight == 1) {
    s.answer({.queue = 1, .held = 3});
    s.settle();
  }
  miss(third, 3);
  CHECK(s.until_listening(3) == channel);
}

TEST_CASE("in an outage a change is told for as long as a request would wait, and then the loop may end") {
  stopped_clock time;
  redis::client client{time.io, "unix:/nonexistent/redis.sock"};
  redis::scheduler quota{client, "crm", {.rate = rate::per_hour(1), .burst = 10, .give_up = 10s}};
  quota.refund(5);
  time.pass_until([&] { return !quota.stats().available; });
  const auto begin = time.clock.now();
  time.pass(8s);
  CHECK(time.clock.next() != time_point::max());
  const auto failed = quota.stats().failed_calls;
  time.pass(1s);
  CHECK(quota.stats().failed_calls > failed);
  time.pass(10s - (time.clock.now() - begin) + 6s);  // the connection is given up a little later
  CHECK(time.clock.next() == time_point::max());
}

TEST_CASE("charges are told as a total, and one that was told is not told again") {
  scene s;
  redis::scheduler quota{s.client, "crm", {.rate = rate::per_hour(1), .burst = 10, .give_up = 1h}};
  quota.charge(3);
  CHECK(s.until_call(1).charged() == 3);
  quota.refund(1);
  s.answer();
  CHECK(s.until_call(2).charged() == 2);
  s.answer();
  s.time.pass(1s);
  CHECK(s.calls() == 2);
}

}  // namespace ledger_test
