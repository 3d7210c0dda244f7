// Limits whose callers wait on the executor of work_stealing, under every order of what their threads do: a caller that
// is let go is pushed into the ring of the thread that lets it go, and another thread may take it from there.

#include "canigo/flow.hpp"
#include "canigo/semaphore.hpp"

#include "interleaving_test.hpp"
#include "pumped_loop.hpp"
#include "world.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/post.hpp>

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

using canigo::errc;
using canigo::permit;
using canigo::semaphore;
using interleaving::explorer;
using interleaving::pumped_loop;
using interleaving::world;
using namespace std::chrono_literals;

namespace {

namespace net = canigo::net;

/// A request that completes where its limit is at home, and what became of it.
struct request_on_pumps {
  void acquire(semaphore& from, const canigo::request& r = {}) {
    from.async_acquire(r, net::bind_cancellation_slot(signal.slot(), [this](std::error_code e, permit p) {
                         ++calls;
                         error = e;
                         held = std::move(p);
                         if (then) then();
                       }));
  }
  bool was_let_in() const { return calls == 1 && !error; }
  /// Blocks the thread until this was answered.
  void wait() {
    explorer::step("wait for an answer");
    if (calls > 0) return;
    explorer::wait([](const void* r) { return static_cast<const request_on_pumps*>(r)->calls > 0; }, this);
  }

  net::cancellation_signal signal;
  std::function<void()> then;
  int calls = 0;
  std::error_code error;
  permit held;
};

/// Each has ended once, nothing waits, and the permits add up.
void expect_sound(world& w, const semaphore& s, std::initializer_list<const request_on_pumps*> requests) {
  std::uint64_t held = 0;
  for (const auto* r : requests) {
    w.expect(r->calls == 1, "a request was not answered exactly once");
    held += r->held.held();
  }
  w.expect(s.stats().waiting == 0, "a request still waits");
  w.expect(s.stats().held == held, "the permits that are out do not add up");
}

}  // namespace

TEST_CASE("a request on pumps is made while the permit is given back", "[interleaving]") {
  explore(2, [](world& w) {
    pumped_loop loop{w, 2};
    semaphore s{loop.get_executor(), {.permits = 1}};
    request_on_pumps a;
    std::optional<permit> out = s.try_acquire();
    w.thread("asks", [&] { a.acquire(s); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.was_let_in(), "the wake-up was lost");
    expect_sound(w, s, {&a});
  });
}

TEST_CASE("two requests on pumps get the permits that two threads give back", "[interleaving]") {
  explore(2, [](world& w) {
    pumped_loop loop{w, 2};
    semaphore s{loop.get_executor(), {.permits = 2}};
    request_on_pumps a;
    request_on_pumps b;
    std::optional<permit> one = s.try_acquire();
    std::optional<permit> other = s.try_acquire();
    a.acquire(s);
    b.acquire(s);
    w.thread("gives one back", [&] { one.reset(); });
    w.thread("gives the other back", [&] { other.reset(); });
    w.run();
    w.expect(a.was_let_in() && b.was_let_in(), "a wake-up was lost");
    expect_sound(w, s, {&a, &b});
  });
}

TEST_CASE("a permit goes on from a request on pumps to the next", "[interleaving]") {
  explore(2, [](world& w) {
    pumped_loop loop{w, 2};
    semaphore s{loop.get_executor(), {.permits = 1}};
    request_on_pumps a;
    request_on_pumps b;
    request_on_pumps c;
    a.then = [&] { a.held.release(); };
    b.then = [&] { b.held.release(); };
    std::optional<permit> out = s.try_acquire();
    a.acquire(s);
    b.acquire(s);
    w.thread("gives back", [&] { out.reset(); });
    w.thread("asks", [&] { c.acquire(s); });
    w.run();
    w.expect(a.was_let_in() && b.was_let_in() && c.was_let_in(), "a wake-up was lost");
    expect_sound(w, s, {&a, &b, &c});
  });
}

TEST_CASE("a function on pumps lets a request go and waits for it", "[interleaving]") {
  explore(2, [](world& w) {
    pumped_loop loop{w, 2};
    semaphore s{loop.get_executor(), {.permits = 1}};
    request_on_pumps a;
    std::optional<permit> out = s.try_acquire();
    a.acquire(s);
    w.thread("has it done", [&] {
      net::post(loop.get_executor(), [&] {
        out.reset();
        a.wait();
      });
    });
    w.run();
    w.expect(a.was_let_in(), "the other thread did not take it");
    expect_sound(w, s, {&a});
  });
}

TEST_CASE("of two requests on pumps that are let go together one waits for the other", "[interleaving]") {
  explore(2, [](world& w) {
    pumped_loop loop{w, 2};
    semaphore s{loop.get_executor(), {.permits = 2}};
    request_on_pumps a;
    request_on_pumps b;
    a.then = [&] { b.wait(); };
    std::optional<permit> out = s.try_acquire({.tokens = 2});
    a.acquire(s);
    b.acquire(s);
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.was_let_in() && b.was_let_in(), "the other thread did not take it");
    expect_sound(w, s, {&a, &b});
  });
}

TEST_CASE("a request on pumps is cancelled while the permit is given back", "[interleaving]") {
  explore(2, [](world& w) {
    pumped_loop loop{w, 1};
    semaphore s{loop.get_executor(), {.permits = 1}};
    request_on_pumps a;
    request_on_pumps b;
    a.then = [&] {
      w.expect(b.calls == 0 || a.error, "both hold the one permit");
      a.held.release();
    };
    std::optional<permit> out = s.try_acquire();
    a.acquire(s);
    b.acquire(s);
    w.thread("cancels",
             [&] { net::post(loop.get_executor(), [&] { a.signal.emit(net::cancellation_type::terminal); }); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.was_let_in() || a.error == net::error::operation_aborted, "another end");
    w.expect(b.was_let_in(), "the permit was lost");
    expect_sound(w, s, {&a, &b});
  });
}

TEST_CASE("the deadline of a request on pumps passes while the permit is given back", "[interleaving]") {
  explore(2, [](world& w) {
    pumped_loop loop{w, 2};
    semaphore s{loop.get_executor(), {.permits = 1}};
    request_on_pumps a;
    std::optional<permit> out = s.try_acquire();
    a.acquire(s, {.deadline = w.after(1s)});
    w.thread("time passes", [&] { w.pass_to(1s); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.was_let_in() || a.error == errc::timed_out, "another end");
    expect_sound(w, s, {&a});
  });
}

TEST_CASE("a limit goes while a permit is on its way to a request on pumps", "[interleaving]") {
  explore(2, [](world& w) {
    pumped_loop loop{w, 2};
    auto s = std::make_unique<semaphore>(loop.get_executor(), canigo::semaphore_options{.permits = 1});
    request_on_pumps a;
    request_on_pumps b;
    std::optional<permit> out = s->try_acquire();
    a.acquire(*s);
    b.acquire(*s);
    w.thread("gives back", [&] { out.reset(); });
    w.thread("destroys", [&] { s.reset(); });
    w.run();
    w.expect(a.was_let_in() || a.error == errc::stopped, "another end");
    w.expect(b.calls == 1 && b.error == errc::stopped, "the other was let in, too");
  });
}

TEST_CASE("the context goes while a permit comes back to a request on pumps", "[interleaving]") {
  explore(2, [](world& w) {
    pumped_loop loop{w, 0};
    semaphore s{loop.get_executor(), {.permits = 1}};
    request_on_pumps a;
    std::optional<permit> out = s.try_acquire();
    a.acquire(s);
    w.thread("context", [&] { loop.shut_down(); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(a.calls == 0, "called by a context that was going");
    w.expect(s.stats().held == 0, "the permit was lost");
    loop.expect_no_late_push();
  });
}
