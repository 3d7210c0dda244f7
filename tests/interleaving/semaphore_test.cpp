// Semaphore and permit under every order of what their threads do.

#include "canigo/semaphore.hpp"

#include "canigo/flow.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <chrono>
#include <memory>
#include <optional>

using canigo::errc;
using canigo::permit;
using canigo::semaphore;
using interleaving::caller;
using interleaving::world;
using namespace std::chrono_literals;

namespace {

namespace net = canigo::net;

/// Ends exactly once each, and no permit is lost.
void expect_sound(world& w, const semaphore& s, std::initializer_list<caller*> callers, std::uint64_t held) {
  for (const caller* c : callers) w.expect(c->calls == (c->asked ? 1 : 0), "a caller was not answered exactly once");
  const canigo::semaphore_stats stats = s.stats();
  w.expect(stats.held == held, "the permits that are out do not add up");
  w.expect(stats.waiting == 0, "somebody still waits");
}

std::uint64_t held_by(std::initializer_list<const caller*> callers) {
  std::uint64_t sum = 0;
  for (const caller* c : callers) sum += c->held.held();
  return sum;
}

}  // namespace

TEST_CASE("one who asks while the permit is given back gets it", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(home);
    std::optional<permit> out = s.try_acquire();
    w.thread("asks", [&] { a.acquire(s); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.was_let_in(), "the wake-up was lost");
    expect_sound(w, s, {&a}, 1);
  });
}

TEST_CASE("two who wait get the two permits that two threads give back", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop", 2);
    semaphore s{home, {.permits = 2}};
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    std::optional<permit> one = s.try_acquire();
    std::optional<permit> other = s.try_acquire();
    a.acquire(s);
    b.acquire(s);
    w.thread("gives one back", [&] { one.reset(); });
    w.thread("gives the other back", [&] { other.reset(); });
    w.run();
    expect_sound(w, s, {&a, &b}, 2);
    w.expect(a.was_let_in() && b.was_let_in(), "a wake-up was lost");
  });
}

TEST_CASE("who is cancelled while the permit is given back passes it on", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(own);
    caller& b = w.make_caller(home);
    std::optional<permit> out = s.try_acquire();
    a.acquire(s);
    b.acquire(s);
    w.thread("cancels", [&] { a.cancel(); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.calls == 1 && b.calls <= 1, "a caller was not answered exactly once");
    if (a.was_let_in()) {
      w.expect(b.calls == 0, "both hold the one permit");
      a.held.release();
      w.run();
    } else {
      w.expect(a.error == net::error::operation_aborted, "another error");
    }
    w.expect(b.was_let_in(), "the permit was lost");
    expect_sound(w, s, {&a, &b}, 1);
  });
}

TEST_CASE("two who are cancelled at once leave the third its turn", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto first = w.make_loop("first strand");
    const auto second = w.make_loop("second strand");
    semaphore s{home, {.permits = 2}};
    caller& a = w.make_caller(first);
    caller& b = w.make_caller(second);
    caller& c = w.make_caller(home);
    std::optional<permit> out = s.try_acquire();
    a.acquire(s, {.tokens = 2});
    b.acquire(s, {.tokens = 2});
    c.acquire(s);
    a.cancel();
    b.cancel();
    w.run();
    w.expect(c.was_let_in(), "the lighter one did not get its turn");
    expect_sound(w, s, {&a, &b, &c}, 2);
  });
}

TEST_CASE("a cancellation that comes while one still asks", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(own);
    std::optional<permit> out = s.try_acquire();
    own.execute([&] { a.acquire(s); });
    a.cancel();
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    expect_sound(w, s, {&a}, a.held.held());
    w.expect(a.was_let_in() || a.error == net::error::operation_aborted, "another end");
    w.expect(a.was_let_in() == (a.held.held() == 1), "let in without a permit, or the other way round");
  });
}

TEST_CASE("a deadline that passes while the permit is given back", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    std::optional<permit> out = s.try_acquire();
    a.acquire(s, {.deadline = w.after(1s)});
    b.acquire(s);
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    if (a.was_let_in()) {
      a.held.release();
      w.run();
    }
    w.expect(b.was_let_in(), "the permit was lost");
    expect_sound(w, s, {&a, &b}, 1);
  });
}

TEST_CASE("a deadline that passes while its waiter is cancelled", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(own);
    const std::optional<permit> out = s.try_acquire();
    a.acquire(s, {.deadline = w.after(1s)});
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("cancels", [&] { a.cancel(); });
    w.run();
    expect_sound(w, s, {&a}, 1);
    w.expect(a.error == errc::timed_out || a.error == net::error::operation_aborted, "another end");
  });
}

TEST_CASE("two deadlines at one instant, and a permit that is given back then", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(own);
    caller& b = w.make_caller(home);
    std::optional<permit> out = s.try_acquire();
    a.acquire(s, {.deadline = w.after(1s)});
    b.acquire(s, {.deadline = w.after(1s)});
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    expect_sound(w, s, {&a, &b}, held_by({&a, &b}));
  });
}

TEST_CASE("more permits while one asks", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(home);
    const std::optional<permit> out = s.try_acquire();
    w.thread("asks", [&] { a.acquire(s); });
    w.thread("resizes", [&] { s.resize(2); });
    w.run();
    w.expect(a.was_let_in(), "the wake-up was lost");
    expect_sound(w, s, {&a}, 2);
  });
}

TEST_CASE("fewer permits while one is given back", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 2}};
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    std::optional<permit> one = s.try_acquire();
    std::optional<permit> other = s.try_acquire();
    a.acquire(s);
    b.acquire(s);
    w.thread("resizes", [&] { s.resize(1); });
    w.thread("gives back", [&] { one.reset(); });
    w.run();
    other.reset();
    w.run();
    w.expect(a.was_let_in(), "the first did not get in");
    if (a.held) a.held.release();
    w.run();
    expect_sound(w, s, {&a, &b}, 1);
  });
}

TEST_CASE("stopped while a permit is given back", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    std::optional<permit> out = s.try_acquire();
    a.acquire(s);
    b.acquire(s);
    w.thread("stops", [&] { s.stop(); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    expect_sound(w, s, {&a, &b}, a.held.held());
    w.expect(b.error == errc::stopped, "let in after the stop");
    w.expect(a.was_let_in() || a.error == errc::stopped, "another end");
  });
}

TEST_CASE("stopped while one asks", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(home);
    const std::optional<permit> out = s.try_acquire();
    w.thread("stops", [&] { s.stop(); });
    w.thread("asks", [&] { a.acquire(s); });
    w.run();
    expect_sound(w, s, {&a}, 1);
    w.expect(a.error == errc::stopped, "another end");
  });
}

TEST_CASE("stopped while one is cancelled", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(own);
    const std::optional<permit> out = s.try_acquire();
    a.acquire(s);
    w.thread("stops", [&] { s.stop(); });
    w.thread("cancels", [&] { a.cancel(); });
    w.run();
    expect_sound(w, s, {&a}, 1);
    w.expect(a.error == errc::stopped || a.error == net::error::operation_aborted, "another end");
  });
}

TEST_CASE("stopped twice at once, with a deadline that passes", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(home);
    const std::optional<permit> out = s.try_acquire();
    a.acquire(s, {.deadline = w.after(1s)});
    w.thread("stops", [&] { s.stop(); });
    w.thread("stops too", [&] { s.stop(); });
    w.thread("clock", [&] { w.pass_to(1s); });
    w.run();
    expect_sound(w, s, {&a}, 1);
  });
}

TEST_CASE("a semaphore goes while its permit is given back", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    auto s = std::make_unique<semaphore>(net::any_io_executor{home}, canigo::semaphore_options{.permits = 1});
    caller& a = w.make_caller(home);
    std::optional<permit> out = s->try_acquire();
    a.acquire(*s);
    w.thread("destroys", [&] { s.reset(); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.calls == 1, "not answered exactly once");
    w.expect(a.was_let_in() || a.error == errc::stopped, "another end");
  });
}

TEST_CASE("a semaphore goes while two permits are given back", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    auto s = std::make_unique<semaphore>(net::any_io_executor{home}, canigo::semaphore_options{.permits = 3});
    std::optional<permit> one = s->try_acquire({.tokens = 2});
    std::optional<permit> other = s->try_acquire();
    w.thread("destroys", [&] { s.reset(); });
    w.thread("splits", [&] {
      permit half = one->split(1);
      one.reset();
    });
    w.thread("gives back", [&] { other.reset(); });
    w.run();
  });
}

TEST_CASE("a semaphore goes while a deadline passes", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    auto s = std::make_unique<semaphore>(net::any_io_executor{home}, canigo::semaphore_options{.permits = 1});
    caller& a = w.make_caller(own);
    std::optional<permit> out = s->try_acquire();
    a.acquire(*s, {.deadline = w.after(1s)});
    w.thread("destroys", [&] { s.reset(); });
    w.thread("clock", [&] { w.pass_to(1s); });
    w.run();
    w.expect(a.calls == 1, "not answered exactly once");
    w.expect(a.error == errc::stopped || a.error == errc::timed_out, "another end");
  });
}

TEST_CASE("who tries does not overtake who waits", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(home);
    std::optional<permit> out = s.try_acquire();
    a.acquire(s);
    std::optional<permit> tried;
    w.thread("gives back", [&] { out.reset(); });
    w.thread("tries", [&] { tried = s.try_acquire(); });
    w.run();
    w.expect(!tried, "overtaken");
    w.expect(a.was_let_in(), "the wake-up was lost");
    expect_sound(w, s, {&a}, 1);
  });
}

TEST_CASE("one is evicted while a permit is given back", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 1, .queue_limit = 1, .on_overflow = canigo::overflow::evict_oldest}};
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    std::optional<permit> out = s.try_acquire();
    a.acquire(s);
    w.thread("asks", [&] { b.acquire(s); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.was_let_in() || a.error == errc::evicted, "another end");
    if (a.was_let_in()) a.held.release();
    w.run();
    w.expect(b.was_let_in(), "the permit was lost");
    expect_sound(w, s, {&a, &b}, 1);
  });
}

TEST_CASE("the queue is full while one leaves it", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    semaphore s{home, {.permits = 1, .queue_limit = 1}};
    caller& a = w.make_caller(own);
    caller& b = w.make_caller(home);
    std::optional<permit> out = s.try_acquire();
    a.acquire(s);
    w.thread("cancels", [&] { a.cancel(); });
    w.thread("asks", [&] { b.acquire(s); });
    w.run();
    w.expect(a.error == net::error::operation_aborted, "not cancelled");
    out.reset();
    w.run();
    w.expect(b.was_let_in() || b.error == errc::queue_full, "another end");
    expect_sound(w, s, {&a, &b}, b.held.held());
  });
}

TEST_CASE("a pause ends while a permit is given back", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(home);
    std::optional<permit> out = s.try_acquire();
    a.acquire(s);
    s.pause_until(w.after(1s));
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.was_let_in(), "the wake-up was lost");
    expect_sound(w, s, {&a}, 1);
  });
}

TEST_CASE("resumed while one asks and one gives back", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 1}};
    caller& a = w.make_caller(home);
    std::optional<permit> out = s.try_acquire();
    s.pause();
    w.thread("asks", [&] { a.acquire(s); });
    w.thread("resumes", [&] { s.resume(); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.was_let_in(), "the wake-up was lost");
    expect_sound(w, s, {&a}, 1);
  });
}

TEST_CASE("three who wait are resumed once each by a loop of two threads", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop", 2);
    semaphore s{home, {.permits = 3}};
    std::optional<permit> out = s.try_acquire({.tokens = 3});
    caller* callers[] = {&w.make_caller(home), &w.make_caller(home), &w.make_caller(home)};
    for (caller* c : callers) c->acquire(s);
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    expect_sound(w, s, {callers[0], callers[1], callers[2]}, 3);
  });
}

TEST_CASE("two halves of a permit are given back by two threads", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 2}};
    std::optional<permit> one = s.try_acquire({.tokens = 2});
    std::optional<permit> other = one->split(1);
    caller& a = w.make_caller(home);
    a.acquire(s, {.tokens = 2});
    w.thread("gives one back", [&] { one.reset(); });
    w.thread("gives the other back", [&] { other.reset(); });
    w.run();
    w.expect(a.was_let_in() && a.held.held() == 2, "the wake-up was lost");
    expect_sound(w, s, {&a}, 2);
  });
}

TEST_CASE("a held flow returns when its permit is given back, while another flow asks", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 2}};
    canigo::flow capped{s, {.concurrency = 1}}, free{s};
    std::optional<permit> out = s.try_acquire({.flow = &capped});
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    a.acquire(s, {.flow = &capped});
    w.thread("gives back", [&] { out.reset(); });
    w.thread("asks", [&] { b.acquire(s, {.flow = &free}); });
    w.run();
    w.expect(a.was_let_in() && b.was_let_in(), "a wake-up was lost");
    expect_sound(w, s, {&a, &b}, 2);
    w.expect(capped.stats().held == 1 && free.stats().held == 1, "a place is of the wrong flow");
  });
}

TEST_CASE("a flow goes while its permit is given back and one of its waiters is cancelled", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    semaphore s{home, {.permits = 1}};
    std::optional<canigo::flow> f{std::in_place, s, canigo::flow_options{.weight = 2}};
    std::optional<permit> out = s.try_acquire({.flow = &*f});
    caller& a = w.make_caller(home);
    caller& b = w.make_caller(home);
    a.acquire(s, {.flow = &*f});
    b.acquire(s);
    w.thread("gives back", [&] { out.reset(); });
    w.thread("ends the flow", [&] { f.reset(); });
    w.thread("cancels", [&] { a.cancel(); });
    w.run();
    w.expect(a.calls == 1, "the flow's waiter was not answered once");
    w.expect(b.was_let_in() || a.was_let_in(), "the wake-up was lost");
    a.held.release();
    w.run();
    w.expect(b.was_let_in(), "the place of a flow that is gone was lost");
    expect_sound(w, s, {&b}, 1);
  });
}
