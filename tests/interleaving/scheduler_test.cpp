// Scheduler and limiter under every order of what their threads and the clock do.

#include "canigo/scheduler.hpp"

#include "canigo/limiter.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <chrono>
#include <initializer_list>
#include <memory>
#include <optional>

using canigo::errc;
using canigo::limiter;
using canigo::permit;
using canigo::rate;
using canigo::scheduler;
using interleaving::caller;
using interleaving::world;
using namespace std::chrono_literals;

namespace {

namespace net = canigo::net;

/// Ends exactly once each, and every token is where it was taken to.
template <class Object>
void expect_sound(world& w, const Object& o, std::initializer_list<caller*> callers) {
  std::uint64_t let_in = 0;
  for (const caller* c : callers) {
    w.expect(c->calls == (c->asked ? 1 : 0), "a caller was not answered exactly once");
    if (c->was_let_in()) ++let_in;
  }
  const auto stats = o.stats();
  w.expect(stats.waiting == 0, "somebody still waits");
  w.expect(stats.granted == let_in, "more were granted than were let in, or fewer");
  w.expect(stats.requested == callers.size(), "the counts do not add up");
}

bool was_cancelled(const caller& c) { return c.error == net::error::operation_aborted; }

}  // namespace

TEST_CASE("one who asks while the token comes", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    scheduler s{home, {.rate = rate{1, 1s}}};
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    a.acquire(s);
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("asks", [&] { b.acquire(s); });
    w.run();
    w.expect(a.was_let_in() && b.was_let_in(), "a token was lost");
    w.expect(w.now() == w.after(2s), "a token came early or late");
    expect_sound(w, s, {&a, &b});
  });
}

TEST_CASE("who is cancelled while the token comes leaves it to the next", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    scheduler s{home, {.rate = rate{1, 1s}}};
    caller& a = w.make_caller(own);
    caller& b = w.make_caller(home);
    a.acquire(s);
    b.acquire(s);
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("cancels", [&] { a.cancel(); });
    w.run();
    w.expect(a.was_let_in() || was_cancelled(a), "another end");
    w.expect(b.was_let_in(), "a token was lost");
    w.expect(w.now() == w.after(a.was_let_in() ? 2s : 1s), "a token came early or late");
    expect_sound(w, s, {&a, &b});
  });
}

TEST_CASE("tokens are given back while the heavy first one is cancelled", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    scheduler s{home, {.rate = rate{1, 1h}, .burst = 3, .initial_tokens = 1}};
    caller& a = w.make_caller(own);
    caller& b = w.make_caller(home);
    a.acquire(s, {.tokens = 3});
    b.acquire(s, {.tokens = 2});
    w.thread("cancels", [&] { a.cancel(); });
    w.thread("gives back", [&] { s.refund(1); });
    w.run();
    w.expect(was_cancelled(a), "another end");
    w.expect(b.was_let_in() && w.now() == w.start, "the wake-up was lost");
    expect_sound(w, s, {&a, &b});
  });
}

TEST_CASE("a new rate while the token comes", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    scheduler s{home, {.rate = rate{1, 1s}}};
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    a.acquire(s);
    b.acquire(s);
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("changes", [&] { s.set_rate(rate{1, 1ms}); });
    w.run();
    w.expect(a.was_let_in() && b.was_let_in(), "a token was lost");
    w.expect(w.now() <= w.after(1s + 1ms), "who waited was not re-timed");
    expect_sound(w, s, {&a, &b});
  });
}

TEST_CASE("a larger burst and one who is too heavy for the old one", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    scheduler s{home, {.rate = rate{1, 1s}, .burst = 1}};
    caller& a = w.make_caller(home);
    w.thread("changes", [&] { s.set_burst(2); });
    w.thread("asks", [&] { a.acquire(s, {.tokens = 2}); });
    w.run();
    w.expect(a.was_let_in() || a.error == errc::too_large, "another end");
    expect_sound(w, s, {&a});
  });
}

TEST_CASE("a smaller burst while a heavy one waits", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    scheduler s{home, {.rate = rate{1, 1s}, .burst = 2, .initial_tokens = 1}};
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    a.acquire(s, {.tokens = 2});
    b.acquire(s);
    w.thread("changes", [&] { s.set_burst(1); });
    w.thread("clock", [&] { w.pass_to(1s); });
    w.run();
    w.expect(a.was_let_in() || a.error == errc::too_large, "another end");
    w.expect(b.was_let_in(), "who is light enough was not let in");
    expect_sound(w, s, {&a, &b});
  });
}

TEST_CASE("tokens are charged while one asks", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    scheduler s{home, {.rate = rate{1, 1s}, .burst = 1, .initial_tokens = 1}};
    caller& a = w.make_caller(home);
    w.thread("charges", [&] { s.charge(1); });
    w.thread("asks", [&] { a.acquire(s); });
    w.run();
    w.expect(a.was_let_in(), "a token was lost");
    w.expect(w.now() == w.start || w.now() == w.after(1s), "a token came early or late");
    w.expect(s.stats().tokens == (w.now() == w.start ? -1 : 0), "tokens came from nowhere, or went");
    expect_sound(w, s, {&a});
  });
}

TEST_CASE("paused while the token comes", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    scheduler s{home, {.rate = rate{1, 1s}}};
    caller& a = w.make_caller(home);
    a.acquire(s);
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("pauses", [&] { s.pause_until(w.after(5s)); });
    w.run();
    w.expect(a.was_let_in(), "the wake-up was lost");
    w.expect(w.now() == w.after(1s) || w.now() == w.after(5s), "the pause ended early or late");
    expect_sound(w, s, {&a});
  });
}

TEST_CASE("stopped while the token comes", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    scheduler s{home, {.rate = rate{1, 1s}}};
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    a.acquire(s);
    b.acquire(s);
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("stops", [&] { s.stop(); });
    w.run();
    w.expect(a.was_let_in() || a.error == errc::stopped, "another end");
    w.expect(b.error == errc::stopped, "another end");
    expect_sound(w, s, {&a, &b});
  });
}

TEST_CASE("the token and the deadline come at the same instant", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    scheduler s{home, {.rate = rate{1, 1s}}};
    caller& a = w.make_caller(own);
    caller& b = w.make_caller(home);
    a.acquire(s, {.deadline = w.after(1s)});
    b.acquire(s);
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("cancels", [&] { a.cancel(); });
    w.run();
    w.expect(a.was_let_in() || was_cancelled(a), "another end");
    w.expect(b.was_let_in(), "a token was lost");
    expect_sound(w, s, {&a, &b});
  });
}

TEST_CASE("two who move the clock", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    scheduler s{home, {.rate = rate{1, 1s}}};
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    a.acquire(s, {.deadline = w.after(1s)});
    b.acquire(s, {.deadline = w.after(2s)});
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("other clock", [&] { w.pass_to(2s); });
    w.run();
    w.expect(b.calls == 1 && a.calls == 1, "a caller was not answered exactly once");
    expect_sound(w, s, {&a, &b});
  });
}

TEST_CASE("a scheduler goes while its token comes", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    auto s = std::make_unique<scheduler>(net::any_io_executor{home}, canigo::scheduler_options{.rate = rate{1, 1s}});
    caller& a = w.make_caller(home);
    a.acquire(*s);
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("destroys", [&] { s.reset(); });
    w.run();
    w.expect(a.calls == 1, "not answered exactly once");
    w.expect(a.was_let_in() || a.error == errc::stopped, "another end");
  });
}

TEST_CASE("a scheduler goes while a deadline passes and its waiter is cancelled", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    auto s = std::make_unique<scheduler>(net::any_io_executor{home}, canigo::scheduler_options{.rate = rate{2, 1s}});
    caller& a = w.make_caller(own);
    a.acquire(*s, {.deadline = w.after(1s)});
    s->pause_until(w.after(1s));
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("destroys", [&] { s.reset(); });
    w.thread("cancels", [&] { a.cancel(); });
    w.run();
    w.expect(a.calls == 1, "not answered exactly once");
  });
}

TEST_CASE("two schedulers of one context", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    scheduler s{home, {.rate = rate{1, 1s}}};
    scheduler t{home, {.rate = rate{1, 2s}}};
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    w.thread("asks", [&] { a.acquire(s); });
    w.thread("asks the other", [&] { b.acquire(t); });
    w.thread("clock", [&] { w.pass_to(500ms); });
    w.run();
    w.expect(a.was_let_in() && b.was_let_in(), "a token was lost");
    w.expect(w.now() <= w.after(2s), "a token came late");
    expect_sound(w, s, {&a});
    expect_sound(w, t, {&b});
  });
}

TEST_CASE("who matters more comes while the token does", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    scheduler s{home, {.rate = rate{1, 1s}, .priorities = 2}};
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    a.acquire(s, {.priority = 1});
    w.thread("asks", [&] { b.acquire(s, {.priority = 0}); });
    w.thread("clock", [&] { w.pass_to(1s); });
    w.run();
    w.expect(a.was_let_in() && b.was_let_in(), "a token was lost");
    expect_sound(w, s, {&a, &b});
  });
}

TEST_CASE("a limiter whose permit comes back while the token does", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    limiter l{home, {.rates = {{rate{1, 1s}, 1, 1}}, .concurrency = 1}};
    std::optional<permit> out = l.try_acquire();
    caller& a = w.make_caller(home);
    a.acquire(l);
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.was_let_in(), "the wake-up was lost");
    w.expect(l.stats().held == 1 && l.stats().tokens[0] == 0, "the limits do not add up");
    w.expect(l.stats().waiting == 0, "somebody still waits");
  });
}

TEST_CASE("a permit is settled while the token comes", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    limiter l{home, {.rates = {{rate{1, 1s}, 2, 2}}}};
    std::optional<permit> out = l.try_acquire({.tokens = 2});
    caller& a = w.make_caller(home);
    a.acquire(l);
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("settles", [&] { out->settle(3); });
    w.run();
    w.expect(a.was_let_in(), "the wake-up was lost");
    // 2 at the start, 3 and 1 were taken, and 1 came in each second: the token went before the settling, or after.
    w.expect(w.now() == w.after(1s) || w.now() == w.after(2s), "a token came early or late");
    w.expect(l.stats().tokens[0] == (w.now() == w.after(1s) ? -1 : 0), "the tokens do not add up");
  });
}

TEST_CASE("a higher cap while a permit comes back and one asks", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    limiter l{home, {.concurrency = 1}};
    std::optional<permit> out = l.try_acquire();
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    a.acquire(l);
    w.thread("changes", [&] { l.set_concurrency(2); });
    w.thread("asks", [&] { b.acquire(l); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.was_let_in() && b.was_let_in(), "a wake-up was lost");
    w.expect(l.stats().held == 2, "the permits do not add up");
  });
}

TEST_CASE("who waits for two rates is cancelled while a token comes", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    limiter l{home, {.rates = {{rate{1, 1s}, 1, 1}, {rate{1, 3s}, 1, 0}}, .concurrency = 1}};
    caller& a = w.make_caller(own);
    a.acquire(l);
    w.thread("clock", [&] { w.pass_to(3s); });
    w.thread("cancels", [&] { a.cancel(); });
    w.run();
    w.expect(a.calls == 1, "not answered exactly once");
    const canigo::limiter_stats stats = l.stats();
    if (a.was_let_in()) {
      w.expect(stats.tokens[0] == 0 && stats.tokens[1] == 0 && stats.held == 1, "the limits do not add up");
    } else {
      w.expect(was_cancelled(a) && stats.tokens[0] == 1 && stats.held == 0, "a cancelled one took something");
    }
  });
}
