// Without memory at every point: whichever allocation fails, everybody is told how it ended, no permit is lost, nothing
// leaks, and the client and its limits work afterwards. A program of its own, as it replaces the heap.

#include "canigo/error.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/detail/reply_reader.hpp"
#include "canigo/redis/limiter.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"
#include "canigo/redis/wait_group.hpp"
#include "canigo/time_source.hpp"
#include "canigo/timeout.hpp"

#include "../lib/redis/engine.hpp"
#include "../lib/redis/slots.hpp"
#include "http/server.hpp"
#include "redis/listener.hpp"
#include "redis/ports.hpp"
#include "redis/proxy.hpp"
#include "redis/server.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace allocations;
using namespace redis_test;
using namespace std::chrono_literals;

namespace {

/// One who waits for something: how it ended, and how often.
struct caller {
  int ends = 0;
  std::error_code ec;
  redis::permit p;
  net::cancellation_signal cancel;
  bool granted() const { return ends == 1 && !ec; }
};

/// Two processes as far as Redis can tell, both connected, and some callers.
struct stage {
  explicit stage(const redis_server& server, redis::semaphore_options o = quick)
      : one{io, server.url(), client_options},
        two{io, server.url(), client_options},
        a{one, name, o},
        b{two, name, o},
        options{o} {
    for (auto* c : {&one, &two}) ask(*c, "PING");
    callers.reserve(16);
    for (int i = 0; i < 16; ++i) callers.push_back(std::make_unique<caller>());
    run_until([&] { return answers == 2; });
  }

  void ask(redis::client& c, const char* what) {
    c.async_run(redis::command{what}, [this](std::error_code, const redis::reply&) { ++answers; });
  }
  template <class Limit>
    requires(!std::is_same_v<Limit, redis::scheduler>)
  void acquire(Limit& s, std::size_t who, canigo::request r = {}) {
    ++asked;
    caller& w = *callers[who];
    s.async_acquire(r, net::bind_cancellation_slot(w.cancel.slot(), [&w](std::error_code ec, redis::permit p) {
                      ++w.ends;
                      w.ec = ec;
                      w.p = std::move(p);
                    }));
  }
  void acquire(redis::scheduler& s, std::size_t who) {
    ++asked;
    caller& w = *callers[who];
    s.async_acquire({}, [&w](std::error_code ec) {
      ++w.ends;
      w.ec = ec;
    });
  }
  bool has_ended(std::size_t who) const { return callers[who]->ends > 0; }

  /// What throws out of the loop was not caught by who should have.
  template <class Done>
  void run_until(Done done) {
    io.restart();
    const auto give_up = steady::now() + 20s;
    const auto is_done = [&] {
      try {
        return done();
      } catch (const std::bad_alloc&) {
        return false;  // statistics allocate, and say so
      }
    };
    while (!is_done() && wrong.empty()) {
      try {
        io.run_one_for(5ms);
      } catch (const std::bad_alloc&) {
        wrong = "it was thrown out of the loop";
      }
      if (steady::now() > give_up) wrong = "somebody waits for ever: " + state();
    }
  }
  /// What of it Redis and the two have in mind, for who has to find out why.
  std::string state() const {
    std::string text = "ended";
    for (std::size_t i = 0; i < callers.size(); ++i) {
      if (callers[i]->ends > 0) text += " " + std::to_string(i) + (callers[i]->ec ? "!" : "");
    }
    for (const auto* s : {&a, &b}) {
      const auto is = s->stats();
      text += "; held " + std::to_string(is.held) + " of " + std::to_string(is.held_by_all) + ", waiting " +
              std::to_string(is.waiting) + " of " + std::to_string(is.waiting_of_all) + ", calls " +
              std::to_string(is.round_trips) + ", failed " + std::to_string(is.failed_calls);
    }
    return text;
  }

  void expect(bool ok, const char* what) {
    if (!ok && wrong.empty()) wrong = what;
  }
  /// All that were asked have ended once, and afterwards all permits can be had at once.
  void expect_all_well() {
    int ends = 0;
    for (auto& c : callers) {
      ends += c->ends;
      expect(c->ends <= 1, "somebody was told twice");
      c->p.release();
    }
    expect(ends == asked, "somebody was not told");
    caller& last = *callers[15];
    acquire(b, 15, {.tokens = options.permits});
    run_until([&] { return last.ends > 0; });
    expect(last.granted(), "the permits can't be had again");
    last.p.release();
    run_until([&] { return a.stats().held == 0 && b.stats().held_by_all == 0; });
    // Nor does anybody listen any more.
    std::size_t channels = 1;
    bool is_asked = false;
    run_until([&] {
      if (!is_asked && channels > 0) {
        is_asked = true;
        one.async_run(redis::command{"PUBSUB", "CHANNELS", "{canigo:default:" + name + "}:*"},
                      [&](std::error_code ec, const redis::reply& r) {
                        is_asked = false;
                        if (!ec) channels = r.elements().size();
                      });
      }
      return !is_asked && channels == 0;
    });
    const auto s = a.stats();
    expect(s.requested == s.granted + s.cancelled + s.timed_out + s.evicted + s.rejected + s.stopped, "miscounted");
  }

  static inline const redis::semaphore_options quick{.permits = 2, .lease = 240ms, .quarantine = false};
  static inline const redis::client_options client_options{
      .reconnect = {.first = std::chrono::milliseconds{1}, .cap = std::chrono::milliseconds{5}}};

  static inline int number = 0;

  const std::string name = std::to_string(++number);  // what one has left behind does not concern the next
  net::io_context io{1};
  redis::client one;
  redis::client two;
  redis::semaphore a;
  redis::semaphore b;
  const redis::semaphore_options options;
  std::vector<std::unique_ptr<caller>> callers;
  int asked = 0;
  int answers = 0;
  std::string wrong;
};

// ---- scenarios: in each the k-th allocation fails; they say whether one has ----

bool commands(const redis_server& server, stage& t, std::int64_t k) {
  (void)server;
  const redis::command echo{"ECHO", "something that is longer than a small string would be"};
  bool has_failed = false;
  int ended = 0;
  {
    failing f{k, unaligned};
    for (int i = 0; i < 3; ++i) {
      t.one.async_run(echo, [&](std::error_code ec, const redis::reply& r) {
        ++ended;
        t.expect(ec || r.text() == echo.arguments()[1], "a reply went astray");
      });
    }
    t.run_until([&] { return ended == 3; });
    has_failed = f.stop();
  }
  return has_failed;
}

// Spared are, as everywhere here, the aligned blocks: what Asio takes for the frame of a coroutine, for co_spawn, and
// for an operation that is started under co_await, out of a function that is noexcept in Asio.
bool connecting(const std::string& url, const redis::client_options& options, stage& t, std::int64_t k) {
  int ended = 0;
  redis::client c{t.io, url, options};
  const redis::command echo{"ECHO", "something that is longer than a small string would be"};
  failing f{k, unaligned};
  for (int i = 0; i < 2; ++i) {
    c.async_run(echo, [&](std::error_code ec, const redis::reply& r) {
      ++ended;
      t.expect(ec || r.text() == echo.arguments()[1], "a reply went astray");
    });
  }
  t.run_until([&] { return ended == 2; });
  return f.stop();
}

bool connecting_by_a_socket_file(const redis_server& server, stage& t, std::int64_t k) {
  return connecting(server.url() + "?db=1", stage::client_options, t, k);
}

bool names_of_a_wait_group(const redis_server&, stage& t, std::int64_t k) {
  redis::wait_group group{t.a};
  int ended = 0;
  bool may_go = false;
  const auto work = [&]() -> net::awaitable<void> {
    while (!may_go) co_await canigo::sleep_for(1ms);
    const std::string id = co_await group.add();
    co_await canigo::sleep_for(1ms);
    t.expect(group.done(id), "a name was not known");
  };
  for (int i = 0; i < 4; ++i) net::co_spawn(t.io, work(), [&](std::exception_ptr) { ++ended; });
  t.io.restart();
  t.io.poll();
  failing f{k, unaligned};
  may_go = true;
  t.run_until([&] { return ended == 4; });
  t.expect(group.count() == 0, "a name is left");
  return f.stop();
}

bool permits_are_handed_on(const redis_server&, stage& t, std::int64_t k) {
  failing f{k, unaligned};
  t.acquire(t.a, 0, {.tokens = 2});
  t.run_until([&] { return t.has_ended(0); });
  t.acquire(t.b, 1);
  t.acquire(t.a, 2, {.deadline = steady::now() + 10s});
  t.run_until([&] { return t.has_ended(1) || t.has_ended(2) || t.b.stats().waiting_of_all == 2; });
  t.callers[0]->p.release();
  t.run_until([&] {
    if (t.has_ended(1)) t.callers[1]->p.release();
    return t.has_ended(1) && t.has_ended(2);
  });
  return f.stop();
}

bool waiters_are_cancelled(const redis_server&, stage& t, std::int64_t k) {
  failing f{k, unaligned};
  t.acquire(t.a, 0, {.tokens = 2});
  t.run_until([&] { return t.has_ended(0); });
  for (std::size_t who = 1; who < 5; ++who) t.acquire(who % 2 == 0 ? t.a : t.b, who);
  t.callers[1]->cancel.emit(net::cancellation_type::total);  // before Redis has heard of it
  t.run_until([&] { return t.b.stats().waiting_of_all == 3 || t.has_ended(2) || t.has_ended(3) || t.has_ended(4); });
  t.callers[2]->cancel.emit(net::cancellation_type::partial);
  t.callers[3]->cancel.emit(net::cancellation_type::terminal);
  t.callers[0]->p.release();
  t.run_until([&] {
    for (std::size_t who : {2u, 3u})
      t.callers[who]->p.release();  // granted before, as 0 was told that there is no memory
    return t.has_ended(1) && t.has_ended(2) && t.has_ended(3) && t.has_ended(4);
  });
  return f.stop();
}

bool the_script_is_forgotten(const redis_server&, stage& t, std::int64_t k) {
  t.acquire(t.a, 0, {.tokens = 2});
  t.run_until([&] { return t.has_ended(0); });
  bool is_flushed = false;
  t.two.async_run(redis::command{"SCRIPT", "FLUSH"}, [&](std::error_code, const redis::reply&) { is_flushed = true; });
  t.run_until([&] { return is_flushed; });
  failing f{k, unaligned};
  t.acquire(t.b, 1);
  t.callers[0]->p.release();
  t.run_until([&] { return t.has_ended(1); });
  return f.stop();
}

bool everything_is_forgotten(const redis_server&, stage& t, std::int64_t k) {
  t.acquire(t.a, 0, {.tokens = 2});
  t.run_until([&] { return t.has_ended(0); });
  t.acquire(t.b, 1);
  t.acquire(t.b, 2);
  t.run_until([&] { return t.b.stats().waiting_of_all == 2; });
  bool is_flushed = false;
  t.two.async_run(redis::command{"FLUSHALL"}, [&](std::error_code, const redis::reply&) { is_flushed = true; });
  t.run_until([&] { return is_flushed; });
  failing f{k, unaligned};
  t.callers[0]->p.release();
  t.acquire(t.a, 3);
  t.run_until([&] { return t.has_ended(3) || t.has_ended(1); });
  t.run_until([&] {
    for (std::size_t i : {1u, 2u, 3u}) t.callers[i]->p.release();
    return t.has_ended(1) && t.has_ended(2) && t.has_ended(3);
  });
  return f.stop();
}

bool leases_are_lost(const redis_server& server, stage& t, std::int64_t k) {
  t.acquire(t.a, 0, {.tokens = 2});
  t.run_until([&] { return t.has_ended(0); });
  t.acquire(t.b, 1);
  t.run_until([&] { return t.b.stats().waiting_of_all == 1 || t.has_ended(1); });
  failing f{k, unaligned};
  ::kill(server.pid(), SIGSTOP);
  t.run_until([&] { return t.callers[0]->p.held() == 0; });
  ::kill(server.pid(), SIGCONT);
  t.run_until([&] { return t.has_ended(1); });
  return f.stop();
}

bool tokens_of_a_quota(const redis_server&, stage& t, std::int64_t k) {
  redis::scheduler one{t.one, "api", {.rate = canigo::rate::per_second(2000), .burst = 2}};
  redis::scheduler two{t.two, "api", {.rate = canigo::rate::per_second(2000), .burst = 2}};
  failing f{k, unaligned};
  for (std::size_t who = 0; who < 6; ++who) t.acquire(who % 2 == 0 ? one : two, who);
  t.run_until([&] {
    for (std::size_t who = 0; who < 6; ++who) {
      if (!t.has_ended(who)) return false;
    }
    return true;
  });
  return f.stop();
}

const redis::limiter_options in_one_step{
    .rates = {{canigo::rate::per_second(5000), 10, 0, "calls"}, {canigo::rate::per_second(2000), 50, 0, "tokens"}},
    .concurrency = 2,
    .lease = 240ms,
    .quarantine = false};

/// Two limiters of one name, with 50 tokens that are there, and no more for an hour.
struct limiters {
  explicit limiters(stage& t)
      : one{t.one, "all" + t.name, in_one_step}, two{t.two, "all" + t.name, in_one_step}, world{t} {
    t.acquire(one, 12, {.amounts = {{"tokens", 50}}});
    t.run_until([&] { return t.has_ended(12); });
    t.callers[12]->p.settle("tokens", 0);
    t.callers[12]->p.release();
    one.set_rate(1, canigo::rate{1, std::chrono::hours{1}});
    t.acquire(one, 13);
    t.run_until([&] { return t.has_ended(13); });
    t.callers[13]->p.release();
  }
  /// Whoever was told a failure took nothing; the others have given everything back. So all is there at once.
  void expect_all_there() {
    for (auto& c : world.callers) {
      if (c->p) c->p.settle("tokens", 0);
      c->p.release();
    }
    world.acquire(two, 14, {.amounts = {{"tokens", 50}}});
    world.run_until([&] { return world.has_ended(14); });
    world.expect(world.callers[14]->granted(), "tokens of a unit are lost");
    world.callers[14]->p.release();
  }
  redis::limiter one, two;
  stage& world;
};

bool several_limits_in_one_step(const redis_server&, stage& t, std::int64_t k) {
  limiters both{t};
  bool has_failed = false;
  {
    failing f{k, unaligned};
    t.acquire(both.one, 0, {.amounts = {{"tokens", 20}}});
    t.acquire(both.two, 1, {.amounts = {{"tokens", 20}}});
    t.run_until([&] { return t.has_ended(0) && t.has_ended(1); });
    t.acquire(both.two, 2, {.amounts = {{"tokens", 5}}});
    t.acquire(both.one, 3, {.amounts = {{"tokens", 5}}});
    t.callers[3]->cancel.emit(net::cancellation_type::total);
    for (std::size_t who : {0u, 1u}) {
      if (t.callers[who]->p) t.callers[who]->p.settle("tokens", 0);
      t.callers[who]->p.release();
    }
    t.run_until([&] { return t.has_ended(2) && t.has_ended(3); });
    has_failed = f.stop();
  }
  both.expect_all_there();
  return has_failed;
}

bool a_limiter_is_stopped(const redis_server&, stage& t, std::int64_t k) {
  limiters both{t};
  t.acquire(both.two, 0, {.amounts = {{"tokens", 10}}});
  t.acquire(both.two, 1, {.amounts = {{"tokens", 10}}});
  t.run_until([&] { return t.has_ended(0) && t.has_ended(1); });
  bool has_failed = false;
  {
    redis::limiter going{t.one, "all" + t.name, in_one_step};
    failing f{k, unaligned};
    t.acquire(going, 2, {.amounts = {{"tokens", 3}}});
    t.acquire(going, 3);
    t.run_until([&] { return going.stats().waiting_of_all == 2 || t.has_ended(2) || t.has_ended(3); });
    going.stop();
    t.run_until([&] { return t.has_ended(2) && t.has_ended(3); });
    has_failed = f.stop();
  }
  both.expect_all_there();
  return has_failed;
}

bool stopped_with_waiters(const redis_server&, stage& t, std::int64_t k) {
  t.acquire(t.b, 0, {.tokens = 2});
  t.run_until([&] { return t.has_ended(0); });
  {
    redis::semaphore s{t.one, t.name, t.options};
    failing f{k, unaligned};
    t.acquire(s, 1);
    t.acquire(s, 2);
    t.run_until([&] { return s.stats().waiting_of_all == 2 || t.has_ended(1) || t.has_ended(2); });
    s.stop();
    t.run_until([&] { return t.has_ended(1) && t.has_ended(2); });
    return f.stop();
  }
}

}  // namespace

TEST_CASE("whichever allocation fails, callers are told, and no permit is lost [realtime]", "[memory][realtime]") {
  const struct {
    const char* name;
    bool (*play)(const redis_server&, stage&, std::int64_t);
    redis::semaphore_options options;
    int at_least;  // so many points, or the scenario does nothing any more
  } scenarios[]{
      {"commands", commands, stage::quick, 10},
      {"connecting", connecting_by_a_socket_file, stage::quick, 20},
      {"names of a wait group", names_of_a_wait_group, stage::quick, 20},
      {"permits that are handed on", permits_are_handed_on, stage::quick, 30},
      {"waiters that are cancelled", waiters_are_cancelled, stage::quick, 30},
      {"a script that is forgotten", the_script_is_forgotten, stage::quick, 20},
      {"data that are forgotten", everything_is_forgotten, stage::quick, 20},
      {"leases that are lost", leases_are_lost, {.permits = 2, .lease = 40ms, .quarantine = false}, 20},
      {"a quota", tokens_of_a_quota, stage::quick, 20},
      {"stopped with waiters", stopped_with_waiters, stage::quick, 20},
      {"several limits in one step", several_limits_in_one_step, stage::quick, 30},
      {"a limiter that is stopped", a_limiter_is_stopped, stage::quick, 15},
  };
  // Every seventh point, from another one on in each scenario; scripts/chaos takes all of them.
  const char* every = std::getenv("CANIGO_TORTURE_EVERY");
  const std::int64_t step = every != nullptr ? std::atol(every) : 7;
  const redis_server server;
  std::int64_t first = 0;
  for (const auto& scenario : scenarios) {
    std::int64_t points = 0;
    int kept = 0;
    bool more = true;
    for (std::int64_t k = -1; more; k = k < 0 ? first++ % step : k + step) {  // at first none fails
      const std::int64_t before = live;
      {
        stage t{server, scenario.options};
        more = scenario.play(server, t, k) || k < 0;
        ::kill(server.pid(), SIGCONT);
        t.expect_all_well();
        if (!t.wrong.empty()) FAIL(scenario.name << ", allocation " << k << ": " << t.wrong);
      }
      points = k;
      // What is made once, or kept for the next, is not made again.
      kept += live > before ? 1 : 0;
      if (kept > 3) FAIL(scenario.name << ", allocation " << k << ": " << live - before << " blocks leak");
    }
    INFO(scenario.name << ": " << points << " points");
    CHECK(points > scenario.at_least);
  }
}

namespace {

/// A command, and how it ends.
struct asked {
  void ask(redis::client& c, const redis::command& what) {
    text.reserve(256);  // its own memory does not matter here
    attempt([&] {
      c.async_run(what, net::bind_cancellation_slot(cancel.slot(), [this](std::error_code e, const redis::reply& r) {
                    ++ends;
                    ec = e;
                    text = r.text();
                  }));
    });
  }
  int ends = 0;
  std::error_code ec;
  std::string text;
  net::cancellation_signal cancel;
};

const redis::command echo{"ECHO", "something that is longer than a small string would be"};

/// A loop whose turns are the library's own: none is there to look at the clock.
struct quiet_loop {
  template <class Done>
  void run_until(Done done) {
    const auto give_up = steady::now() + 20s;
    while (!done()) {
      REQUIRE(steady::now() < give_up);
      io.restart();
      if (io.run_one_for(5ms) == 0) advance(5ms);
    }
  }
  /// The next turn.
  void poll_one() {
    io.restart();
    io.poll_one();
  }
  void advance(canigo::duration d) { clock.advance(clock.now() + d); }

  net::io_context io{1};
  canigo::time_source_control clock{io, {}};
};

}  // namespace

TEST_CASE("who asks without memory for it is told so, or not at all", "[memory]") {
  const redis_server server;
  for (std::int64_t k = 0; k < 2; ++k) {
    net::io_context io{1};
    redis::client client{io, server.url()};
    redis::semaphore slots{client, "s", {.permits = 1, .quarantine = false}};
    redis::scheduler quota{client, "q", {.rate = canigo::rate::per_second(10), .burst = 1}};
    asked a;
    caller permit, token;
    const auto told = canigo::make_error_code(canigo::errc::not_enough_memory);
    {
      const failing f{k, aligned};
      a.ask(client, echo);
    }
    {
      const failing f{k, aligned};
      slots.async_acquire({}, net::bind_cancellation_slot(permit.cancel.slot(), [&](std::error_code ec, redis::permit) {
                            ++permit.ends;
                            permit.ec = ec;
                          }));
    }
    {
      const failing f{k, aligned};
      quota.async_acquire({}, net::bind_cancellation_slot(token.cancel.slot(), [&](std::error_code ec) {
                            ++token.ends;
                            token.ec = ec;
                          }));
    }
    run_until(io, [&] { return a.ends + permit.ends + token.ends == 3; });
    CHECK(a.ec == told);
    CHECK(permit.ec == told);
    CHECK(token.ec == told);
    // The same objects work on.
    asked b;
    b.ask(client, echo);
    run_until(io, [&] { return b.ends == 1; });
    CHECK_FALSE(b.ec);
  }
}

TEST_CASE("an end that there is no memory to tell is told later, or goes with the context", "[memory]") {
  const redis_server server;
  for (const bool goes : {false, true}) {
    auto io = std::make_unique<net::io_context>(1);
    redis::client client{*io, server.url()};
    redis::semaphore slots{client, "s", stage::quick};
    asked a;
    a.ask(client, echo);
    caller b;
    slots.async_acquire({}, net::bind_cancellation_slot(b.cancel.slot(), [&](std::error_code ec, redis::permit) {
                          ++b.ends;
                          b.ec = ec;
                        }));
    {
      const failing all_of_them{0, all, 1'000'000};
      a.cancel.emit(net::cancellation_type::total);
      b.cancel.emit(net::cancellation_type::total);
    }
    if (goes) {
      io.reset();
      CHECK(a.ends + b.ends == 0);
    } else {
      run_until(*io, [&] { return a.ends + b.ends == 2; });
      CHECK(a.ec == net::error::operation_aborted);
      CHECK(b.ec == net::error::operation_aborted);
    }
  }
}

TEST_CASE("without memory for the reason the code says enough", "[memory]") {
  for (const std::int64_t k : {-1, 0}) {
    net::io_context io{1};
    canigo::time_source_control clock{io, {}};
    redis::client client{io, "unix:/nonexistent/a-name-that-is-too-long-for-the-string-itself.sock", {.timeout = 1s}};
    asked a;
    a.ask(client, echo);
    io.poll();
    {
      const failing f{k, k < 0 ? all : by_new, 1'000'000};
      clock.advance(clock.now() + 1s);
    }
    io.restart();
    run_until(io, [&] { return a.ends == 1; });
    CHECK(a.ec == canigo::errc::store_unavailable);
    CHECK(a.text.empty() == (k == 0));
  }
}

TEST_CASE("a command is answered, or fails, whichever allocation fails on its way", "[memory]") {
  const redis_server server;
  for (const bool is_connected : {false, true}) {
    int failed = 0;
    for (std::int64_t i = 0; i < 14; ++i) {
      const victims kind = i < 12 ? by_new : aligned;
      const std::int64_t k = i % 12;
      CAPTURE(is_connected, kind, k);
      net::io_context io{1};
      redis::client client{io, server.url(), stage::client_options};
      asked first, a, b;
      if (is_connected) {
        first.ask(client, echo);
        run_until(io, [&] { return first.ends == 1; });
      }
      a.ask(client, echo);
      {
        // While it connects, of its turn only: Asio's coroutines, which come after it, don't survive that.
        const failing f{k, kind};
        io.restart();
        is_connected ? io.poll() : io.poll_one();
      }
      b.ask(client, echo);
      run_until(io, [&] { return a.ends + b.ends == 2; });
      CHECK((!a.ec || a.ec == redis::error::connection_lost || a.ec == canigo::errc::not_enough_memory));
      CHECK_FALSE(b.ec);
      failed += a.ec ? 1 : 0;
      if (!is_connected) break;
    }
    CHECK(failed <= 5);
  }
}

namespace {

/// Asks Redis whether anybody listens to a limit, without a heap.
class listeners {
 public:
  listeners(const redis_server& server, const std::string& limit) : fd_{::socket(AF_UNIX, SOCK_STREAM, 0)} {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    server.path().copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    question_ = "PUBSUB CHANNELS {canigo:default:" + limit + "}:*\r\n";
  }
  ~listeners() { ::close(fd_); }
  listeners(const listeners&) = delete;
  listeners& operator=(const listeners&) = delete;

  bool are_there() const {
    char answer[256] = {};  // one small packet
    const auto size = static_cast<ssize_t>(question_.size());
    return ::send(fd_, question_.data(), question_.size(), MSG_NOSIGNAL) == size &&
           ::recv(fd_, answer, sizeof answer - 1, 0) > 0 && !std::string_view{answer}.starts_with("*0");
  }

 private:
  const int fd_;
  std::string question_;
};

}  // namespace

namespace {

/// A slow machine does not lose this lease.
const redis::semaphore_options unhurried{.permits = 2, .lease = 3s, .quarantine = false};

/// One process has all permits, and still listens though none of its callers waits any more.
void hold_and_listen(stage& t, const listeners& others) {
  t.acquire(t.a, 0, {.tokens = 2});
  t.run_until([&] { return t.has_ended(0); });
  t.acquire(t.a, 1);
  t.run_until([&] { return t.a.stats().waiting_of_all == 1 && others.are_there(); });
  t.callers[1]->cancel.emit(net::cancellation_type::terminal);
  t.run_until([&] { return t.has_ended(1) && t.a.stats().waiting_of_all == 0; });
}

}  // namespace

TEST_CASE("whichever allocation fails as a limit falls idle, it does not listen for ever", "[memory]") {
  const redis_server server;
  const auto needed = for_every_allocation([&](std::int64_t k) {
    CAPTURE(k);
    stage t{server, unhurried};
    const listeners others{server, t.name};
    hold_and_listen(t, others);
    bool has_failed = false;
    {
      failing f{k, unaligned};
      t.callers[0]->p.release();
      t.run_until([&] { return !others.are_there(); });
      has_failed = f.stop();
    }
    t.expect_all_well();
    REQUIRE(t.wrong == "");
    return has_failed;
  });
  CHECK(needed > 5);
}

TEST_CASE("a limit that has lost its lease without memory to tell Redis anything does not listen for ever",
          "[memory]") {
  const redis_server server;
  stage t{server, unhurried};
  const listeners others{server, t.name};
  hold_and_listen(t, others);
  const auto give_up = steady::now() + 1min;
  while (t.a.stats().lost_leases == 0) {
    REQUIRE(steady::now() < give_up);
    const failing f{0, by_new, 1'000'000};
    t.io.restart();
    t.io.run_one_for(5ms);
  }
  CHECK(others.are_there());
  t.run_until([&] { return !others.are_there(); });
  t.expect_all_well();
  CHECK(t.wrong == "");
}

TEST_CASE("a limit that goes to another node without memory to end its subscription listens there, and only there",
          "[memory]") {
  const std::string port = free_ports(1).front();
  redis_server before;
  const redis_server after{{"--port", port, "--bind", "127.0.0.1"}};
  const std::string name = "goes";
  const listeners at_first{before, name}, at_last{after, name};
  net::io_context io{1};
  redis::client client{io, before.url(), stage::client_options};
  // The quarantine of the other node takes the session in as it is, so the channel has the same name there.
  redis::semaphore slots{client, name, {.permits = 1, .lease = 2s}};
  std::array<caller, 3> callers;
  for (auto& c : callers) {
    slots.async_acquire({}, [&c](std::error_code ec, redis::permit p) {
      ++c.ends;
      c.ec = ec;
      c.p = std::move(p);
    });
  }
  run_until(io, [&] { return callers[0].ends == 1 && at_first.are_there(); });
  auto& home = redis::detail::engine_of(client);
  const unsigned slot = redis::detail::slot_of("{canigo:default:" + name + "}:");
  const auto there = home.cluster().follow(home, "MOVED " + std::to_string(slot) + " 127.0.0.1:" + port).where;
  REQUIRE(there != nullptr);
  // The next command is a call of the limit, and is not answered.
  run_until(io, [&] { return client.stats().waiting + client.stats().in_flight == 0; });
  before.pause();
  run_until(io, [&] { return client.stats().in_flight == 1; });
  const auto failed = slots.stats().failed_calls;
  const auto give_up = steady::now() + 1min;
  while (slots.stats().failed_calls == failed) {
    REQUIRE(steady::now() < give_up);
    const failing f{0, by_new, 1'000'000};
    io.restart();
    io.run_one_for(5ms);
  }
  before.resume();
  run_until(io, [&] { return !at_first.are_there() && at_last.are_there(); });
  // Whoever has a permit gives it back, until there is nobody left.
  run_until(io, [&] {
    for (auto& c : callers) c.p.release();
    return std::ranges::all_of(callers, [](const caller& c) { return c.ends == 1; }) && !at_last.are_there();
  });
  CHECK(slots.stats().granted == 3);
  CHECK(there->stats().sent > 0);
  CHECK_FALSE(at_first.are_there());
}

TEST_CASE("a client that is stopped without memory while it connects ends all the same", "[memory]") {
  const http_test::full_port nobody;
  const std::string url = "redis" + nobody.url().substr(4);
  for (const victims kind : {by_new, aligned}) {
    net::io_context io{1};
    redis::client client{io, url, {.connect_timeout = 3s}};
    asked a;
    a.ask(client, echo);
    for (int i = 0; i < 20; ++i) io.poll();
    client.stop();
    {
      const failing f{0, kind};
      io.restart();
      io.poll_one();
    }
    run_until(io, [&] { return a.ends == 1; });
    CHECK(a.ec == canigo::errc::stopped);
    io.restart();
    io.run();
  }
}

TEST_CASE("a turn that there is no memory to post comes with the next command", "[memory]") {
  const redis_server server;
  net::io_context io{1};
  redis::client client{io, server.url()};
  asked a, b;
  {
    const failing f{2, aligned};  // the first two are the command's own, and its cancellation's
    a.ask(client, echo);
  }
  b.ask(client, echo);
  run_until(io, [&] { return a.ends + b.ends == 2; });
  CHECK_FALSE(b.ec);
}

TEST_CASE("after a call for which memory was missing the next one is answered", "[memory]") {
  const redis_server server;
  quiet_loop loop;
  redis::client client{loop.io, server.url()};
  redis::scheduler quota{client, "quick", {.rate = canigo::rate::per_second(1000), .burst = 1000}};
  int ended = 0;
  std::error_code error;
  const auto acquire = [&] {
    quota.async_acquire({}, [&](std::error_code ec) {
      ++ended;
      error = ec;
    });
  };
  const auto needed = for_every_allocation([&](std::int64_t k) {
    CAPTURE(k);
    bool has_failed = false;
    ended = 0;
    {
      failing f{k, all};
      acquire();
      has_failed = f.stop();
    }
    loop.run_until([&] { return ended == 1; });
    acquire();
    loop.run_until([&] { return ended == 2; });
    CHECK_FALSE(error);
    return has_failed;
  });
  CHECK(needed > 1);
}

#ifndef CANIGO_TESTS_SANITIZED
TEST_CASE("a reply that there is no memory to read is told so", "[memory]") {
  const std::string bytes = "*2\r\n$40\r\n" + std::string(40, 'x') + "\r\n$40\r\n" + std::string(40, 'y') + "\r\n";
  const auto needed = for_every_allocation([&](std::int64_t k) {
    redis::detail::reply_reader reader{4096};
    std::error_code ec;
    std::optional<redis::reply> r;
    bool has_failed = false;
    {
      failing f{k, unaligned};
      ec = reader.feed(bytes);
      if (!ec) r = reader.next(ec);
      has_failed = f.stop();
    }
    CHECK((has_failed ? ec == canigo::errc::not_enough_memory : !ec));
    CHECK(r.has_value() == !ec);
    return has_failed;
  });
  CHECK(needed > 3);
}
#endif

TEST_CASE("a client that goes without memory for its last turn closes its connections all the same", "[memory]") {
  const redis_server server;
  net::io_context io{1};
  auto client = std::make_unique<redis::client>(io, server.url());
  const std::weak_ptr<redis::detail::engine> engine = redis::detail::engine_of(*client).weak_from_this();
  const std::weak_ptr<redis::detail::subscriber> second = engine.lock()->subscriptions();
  const auto heard = std::make_shared<listener>();
  second.lock()->add("news", heard);
  asked a;
  a.ask(*client, echo);
  run_until(io, [&] { return a.ends == 1 && heard->times == 1; });
  {
    const failing all_of_them{0, all, 1'000'000};
    client.reset();
  }
  CHECK_FALSE(engine.expired());
  run_until(io, [&] { return engine.expired() && second.expired(); });
}

TEST_CASE("who begins or ends to listen without memory to tell the strand is told so", "[memory]") {
  const redis_server server;
  net::io_context io{1};
  redis::client client{io, server.url()};
  const auto s = redis::detail::engine_of(client).subscriptions();
  const auto heard = std::make_shared<listener>();
  const std::string channel = "a channel with a name that is longer than what a string has room for by itself";
  const auto fails = [](auto change) {
    const failing all_of_them{0, all, 1'000'000};
    return !attempt(change);
  };
  CHECK(fails([&] { s->add(channel, heard); }));
  CHECK(io.poll() == 0);
  s->add(channel, heard);
  run_until(io, [&] { return heard->times == 1; });
  CHECK(fails([&] { s->check(channel); }));
  CHECK(fails([&] { s->remove(channel); }));
  // It hears on: the check is answered.
  s->check(channel);
  run_until(io, [&] { return heard->times == 2; });
}

TEST_CASE("a permit that is kept can't be had without memory for it, and stays", "[memory]") {
  const redis_server server;
  net::io_context io{1};
  redis::client client{io, server.url()};
  redis::semaphore slots{client, "kept", {.permits = 1, .lease = 1min, .horizon = 1min, .quarantine = false}};
  caller first, second, third;
  const auto acquire = [&](caller& c) {
    slots.async_acquire({}, [&](std::error_code ec, redis::permit p) {
      ++c.ends;
      c.ec = ec;
      c.p = std::move(p);
    });
  };
  acquire(first);
  run_until(io, [&] { return first.ends == 1; });
  first.p.release();
  {
    const failing f{0, by_new};
    acquire(second);
  }
  acquire(third);
  run_until(io, [&] { return second.ends + third.ends == 2; });
  CHECK(second.ec == canigo::errc::not_enough_memory);
  CHECK_FALSE(third.ec);
  CHECK(third.p.held() == 1);
  CHECK(slots.stats().granted_ahead == 1);
}

TEST_CASE("who waits for a permit's end is told of it later where there is no memory for it", "[memory]") {
  const redis_server server;
  net::io_context io{1};
  redis::client client{io, server.url()};
  redis::semaphore slots{client, "end", {.permits = 1, .quarantine = false}};
  caller holder;
  slots.async_acquire({}, [&](std::error_code ec, redis::permit p) {
    ++holder.ends;
    holder.ec = ec;
    holder.p = std::move(p);
  });
  run_until(io, [&] { return holder.ends == 1; });
  REQUIRE(holder.granted());
  std::exception_ptr how;
  bool has_ended = false;
  net::co_spawn(io, holder.p.lost(), [&](std::exception_ptr e) {
    has_ended = true;
    how = e;
  });
  io.restart();
  io.poll();
  {
    failing all_of_them{0, all, 1'000'000};
    const bool is_released = holder.p.release();
    CHECK(all_of_them.stop());
    CHECK(is_released);
  }
  run_until(io, [&] { return has_ended; });
  try {
    std::rethrow_exception(how);
  } catch (const std::system_error& e) {
    CHECK(e.code() == canigo::errc::stopped);
  }
}

TEST_CASE("a second connection that there is no memory to make, nor to wait for, is made when it is wanted",
          "[memory]") {
  const redis_server server;
  // The first is for what is listened to.
  for (std::int64_t k = 1; k < 4; ++k) {
    CAPTURE(k);
    quiet_loop l;
    redis::client client{l.io, server.url(), stage::client_options};
    const auto s = redis::detail::engine_of(client).subscriptions();
    const auto heard = std::make_shared<listener>();
    s->add("news", heard);
    {
      failing f{k, all, 1'000'000};
      l.poll_one();
      CHECK(f.stop());
    }
    l.io.restart();
    l.io.run_for(std::chrono::milliseconds{20});
    CHECK(heard->times == 0);
    s->add("more", heard);
    l.run_until([&] { return heard->times == 2; });
  }
}

TEST_CASE("what a coroutine asks for without memory ends as one value, too", "[memory]") {
  const redis_server server;
  // Started as by client::run, without the frames of coroutines, which g++ 12 does not survive.
  for (const bool has_memory : {false, true}) {
    net::io_context io{1};
    redis::client client{io, server.url()};
    const redis::detail::start_call<redis::detail::answered_call> start{
        redis::detail::engine_of(client).shared_from_this()};
    std::optional<redis::detail::answer> answer;
    {
      failing f{has_memory ? -1 : 0, aligned};
      start([&](redis::detail::answer a) { answer = std::move(a); }, echo);
      CHECK(f.stop() == !has_memory);
      CHECK(!answer);
    }
    run_until(io, [&] { return answer.has_value(); });
    const auto told = canigo::make_error_code(canigo::errc::not_enough_memory);
    CHECK(answer->error == (has_memory ? std::error_code{} : told));
    CHECK(answer->what.text() == (has_memory ? echo.arguments()[1] : ""));
  }
}

TEST_CASE("a call of the script that there is no memory to send is made later", "[memory]") {
  const redis_server server;
  quiet_loop l;
  redis::client client{l.io, server.url()};
  asked first;
  first.ask(client, echo);
  l.run_until([&] { return first.ends == 1; });
  redis::semaphore slots{client, "send", stage::quick};
  caller a;
  slots.async_acquire({}, [&](std::error_code ec, redis::permit p) {
    ++a.ends;
    a.ec = ec;
    a.p = std::move(p);
  });
  {
    const failing f{0, aligned, 1'000'000};
    l.poll_one();
  }
  CHECK(slots.stats().failed_calls == 1);
  CHECK(client.stats().sent == 1);
  l.run_until([&] { return a.ends == 1; });
  CHECK(a.granted());
}

TEST_CASE("a command that there is no memory to write, nor to read its answer, is lost with the connection",
          "[memory]") {
  const redis_server server;
  quiet_loop l;
  redis::client client{l.io, server.url(), stage::client_options};
  asked first, a, b;
  first.ask(client, echo);
  l.run_until([&] { return first.ends == 1; });
  a.ask(client, echo);
  {
    const failing f{0, aligned, 1'000'000};
    l.poll_one();
  }
  CHECK(client.stats().failures == 1);
  b.ask(client, echo);
  l.run_until([&] { return a.ends + b.ends == 2; });
  CHECK(a.ec == canigo::errc::not_enough_memory);
  CHECK_FALSE(b.ec);
  CHECK(client.stats().connects == 2);
}

TEST_CASE("an answer that there is no memory to read is asked for again", "[memory]") {
  const redis_server server;
  // In the answer stands what was published and has not come, so there is also to be asked why.
  net::io_context elsewhere{1};
  redis::client other{elsewhere, server.url()};
  int failed = 0, granted = 0;
  for (std::int64_t k = 0; k < 8; ++k) {
    CAPTURE(k);
    const redis::semaphore_options o{.permits = 1, .lease = 1min, .quarantine = false};
    const std::string name = "answer" + std::to_string(k);
    redis::semaphore theirs{other, name, o};
    caller a, b;
    const auto acquire = [](redis::semaphore& s, caller& c) {
      s.async_acquire({}, [&c](std::error_code ec, redis::permit p) {
        ++c.ends;
        c.ec = ec;
        c.p = std::move(p);
      });
    };
    acquire(theirs, a);
    run_until(elsewhere, [&] { return a.ends == 1; });

    quiet_loop l;
    redis_test::proxy between{l.io, server.folder() / ("proxy" + std::to_string(k)), server.path()};
    redis::client client{l.io, between.url(), stage::client_options};
    redis::semaphore slots{client, name, o};
    acquire(slots, b);
    // It waits, listens, and has asked once more.
    l.run_until([&] { return slots.stats().round_trips == 2; });
    between.hold_published();
    const auto told = theirs.stats().round_trips;
    a.p.release();
    run_until(elsewhere, [&] { return theirs.stats().round_trips > told; });
    const auto calls = client.stats().answered;
    l.advance(o.lease / 2);
    l.run_until([&] { return client.stats().answered > calls; });
    // On io_uring a step comes first that has nothing to do.
    const auto asked = slots.stats().round_trips;
    for (int step = 0; step < 3 && slots.stats().available && slots.stats().round_trips == asked; ++step) {
      const failing f{k, by_new, 1'000'000};
      l.poll_one();
    }
    failed += slots.stats().available ? 0 : 1;
    l.run_until([&] { return b.ends == 1; });
    CHECK((!b.ec || b.ec == canigo::errc::not_enough_memory));
    granted += b.ec ? 0 : 1;
    b.p.release();
    between.close();
  }
  CHECK(failed > 0);
  CHECK(granted > 3);
}
