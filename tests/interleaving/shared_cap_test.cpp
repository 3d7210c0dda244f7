// Limiters that share a cap, under every order of what their threads do: a place that comes back reaches somebody who
// can use it, whatever becomes of the one who was first.

#include "canigo/limiter.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <chrono>
#include <initializer_list>
#include <memory>
#include <optional>

using canigo::errc;
using canigo::limiter;
using canigo::limiter_options;
using canigo::permit;
using canigo::rate;
using canigo::shared_cap;
using interleaving::caller;
using interleaving::explorer;
using interleaving::world;
using namespace std::chrono_literals;

namespace {

namespace net = canigo::net;

/// Each permit that is out holds one place, and nobody waits beside a free one.
void expect_conserved(world& w, const shared_cap& cap, std::initializer_list<const limiter*> limiters,
                      std::uint64_t held) {
  std::uint64_t sum = 0;
  for (const limiter* l : limiters) {
    const canigo::limiter_stats s = l->stats();
    sum += s.held;
    w.expect(s.waiting == 0 || cap.held() >= cap.permits(), "somebody waits beside a free place");
  }
  w.expect(cap.held() == sum && sum == held, "the places that are taken do not add up");
}

/// A context of its own, which goes as Asio's does: its services first, then what was posted.
class elsewhere : public net::execution_context {
 public:
  explicit elsewhere(canigo::time_point now) : clock_{*this, now} { loop_.context = this; }
  ~elsewhere() {
    end();
    destroy();
  }
  void end() {
    if (loop_.is_gone) return;
    shutdown();
    loop_.is_gone = true;
    loop_.queue.drop();
  }
  bool was_posted_to_late = false;

  class executor {
   public:
    explicit executor(elsewhere& e) noexcept : of_{&e} {}
    template <class F>
    void execute(F&& f) const {
      explorer::step("post");  // a post takes its time
      if (of_->loop_.is_gone) {
        of_->was_posted_to_late = true;
        return;
      }
      of_->loop_.queue.push(interleaving::work{std::forward<F>(f)});
    }
    bool operator==(const executor&) const noexcept = default;
    net::execution_context& query(net::execution::context_t) const noexcept { return *of_; }
    static constexpr net::execution::blocking_t query(net::execution::blocking_t) noexcept {
      return net::execution::blocking.never;
    }
    executor require(net::execution::blocking_t::never_t) const noexcept { return *this; }

   private:
    elsewhere* of_;
  };
  executor get_executor() noexcept { return executor{*this}; }

 private:
  interleaving::loop loop_;
  canigo::time_source_control clock_;
};

}  // namespace

TEST_CASE("one who asks while another limiter gives back the shared place gets it", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    shared_cap cap{{.permits = 1}};
    limiter a{home, {.share = cap}};
    limiter b{home, {.share = cap}};
    caller& asks = w.make_caller(home);
    std::optional<permit> out = a.try_acquire();
    w.thread("asks", [&] { asks.acquire(b); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(asks.was_let_in(), "the wake-up was lost");
    expect_conserved(w, cap, {&a, &b}, 1);
  });
}

TEST_CASE("nobody takes a shared place before who waits for it", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    shared_cap cap{{.permits = 1}};
    limiter a{home, {.share = cap}};
    limiter b{home, {.share = cap}};
    caller& waits = w.make_caller(home);
    std::optional<permit> out = a.try_acquire();
    waits.acquire(a);
    bool has_overtaken = false;
    w.thread("gives back", [&] { out.reset(); });
    w.thread("tries", [&] { has_overtaken = b.try_acquire().has_value(); });
    w.run();
    w.expect(waits.was_let_in() && !has_overtaken, "overtaken");
    expect_conserved(w, cap, {&a, &b}, 1);
  });
}

TEST_CASE("two ask for the one place that two limiters share", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    shared_cap cap{{.permits = 1}};
    limiter a{home, {.share = cap}};
    limiter b{home, {.share = cap}};
    caller& one = w.make_caller(home);
    caller& other = w.make_caller(home);
    w.thread("asks", [&] { one.acquire(a); });
    w.thread("asks too", [&] { other.acquire(b); });
    w.run();
    w.expect(one.was_let_in() != other.was_let_in(), "not exactly one was let in");
    (one.was_let_in() ? one : other).held.release();
    w.run();
    w.expect(one.was_let_in() && other.was_let_in(), "the wake-up was lost");
    expect_conserved(w, cap, {&a, &b}, 1);
  });
}

TEST_CASE("two places come back at once to two limiters", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    shared_cap cap{{.permits = 2}};
    limiter a{home, {.share = cap}};
    limiter b{home, {.share = cap}};
    caller& one = w.make_caller(home);
    caller& other = w.make_caller(home);
    std::optional<permit> p = a.try_acquire();
    std::optional<permit> q = b.try_acquire();
    one.acquire(a);
    other.acquire(b);
    w.thread("gives one back", [&] { p.reset(); });
    w.thread("gives the other back", [&] { q.reset(); });
    w.run();
    w.expect(one.was_let_in() && other.was_let_in(), "a wake-up was lost");
    expect_conserved(w, cap, {&a, &b}, 2);
  });
}

TEST_CASE("who is cancelled while a shared place comes back leaves it to another limiter", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    shared_cap cap{{.permits = 1}};
    limiter a{home, {.share = cap}};
    limiter b{home, {.share = cap}};
    caller& chosen = w.make_caller(own);
    caller& next = w.make_caller(home);
    std::optional<permit> out = b.try_acquire();
    chosen.acquire(a);
    next.acquire(b);
    w.thread("cancels", [&] { chosen.cancel(); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(chosen.calls == 1 && next.calls <= 1, "a caller was not answered exactly once");
    if (chosen.was_let_in()) {
      w.expect(next.calls == 0, "both hold the one place");
      chosen.held.release();
      w.run();
    }
    w.expect(next.was_let_in(), "the place was lost");
    expect_conserved(w, cap, {&a, &b}, 1);
  });
}

TEST_CASE("a limiter is stopped while a shared place comes back to it", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    shared_cap cap{{.permits = 1}};
    limiter a{home, {.share = cap}};
    limiter b{home, {.share = cap}};
    caller& chosen = w.make_caller(home);
    caller& next = w.make_caller(home);
    std::optional<permit> out = b.try_acquire();
    chosen.acquire(a);
    next.acquire(b);
    w.thread("stops", [&] { a.stop(); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(chosen.was_let_in() || chosen.error == errc::stopped, "another end");
    chosen.held.release();
    w.run();
    w.expect(next.was_let_in(), "the place was lost");
    expect_conserved(w, cap, {&a, &b}, 1);
  });
}

TEST_CASE("a limiter goes while a shared place comes back to it", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    shared_cap cap{{.permits = 1}};
    auto a = std::make_unique<limiter>(net::any_io_executor{home}, limiter_options{.share = cap});
    limiter b{home, {.share = cap}};
    caller& chosen = w.make_caller(home);
    caller& next = w.make_caller(home);
    std::optional<permit> out = a->try_acquire();
    chosen.acquire(*a);
    next.acquire(b);
    w.thread("destroys", [&] { a.reset(); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(chosen.was_let_in() || chosen.error == errc::stopped, "another end");
    chosen.held.release();
    w.run();
    w.expect(next.was_let_in(), "the place was lost");
    expect_conserved(w, cap, {&b}, 1);
  });
}

TEST_CASE("a deadline passes while a shared place comes back", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    shared_cap cap{{.permits = 1}};
    limiter a{home, {.share = cap}};
    limiter b{home, {.share = cap}};
    caller& chosen = w.make_caller(home);
    caller& next = w.make_caller(home);
    std::optional<permit> out = b.try_acquire();
    chosen.acquire(a, {.deadline = w.after(1s)});
    next.acquire(b);
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(chosen.was_let_in() || chosen.error == errc::timed_out, "another end");
    chosen.held.release();
    w.run();
    w.expect(next.was_let_in(), "the place was lost");
    expect_conserved(w, cap, {&a, &b}, 1);
  });
}

TEST_CASE("a shared cap shrinks while a place comes back, and grows again", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    shared_cap cap{{.permits = 2}};
    limiter a{home, {.share = cap}};
    limiter b{home, {.share = cap}};
    caller& one = w.make_caller(home);
    caller& other = w.make_caller(home);
    std::optional<permit> p = a.try_acquire();
    std::optional<permit> q = b.try_acquire();
    one.acquire(a);
    other.acquire(b);
    w.thread("resizes", [&] {
      cap.resize(1);
      cap.resize(3);
    });
    w.thread("gives back", [&] { p.reset(); });
    w.run();
    w.expect(one.was_let_in() && other.was_let_in(), "a wake-up was lost");
    expect_conserved(w, cap, {&a, &b}, 3);
  });
}

TEST_CASE("a rate lets one go while another limiter takes the last shared place", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    shared_cap cap{{.permits = 1}};
    limiter a{home, {.rates = {{rate::per_second(1)}}, .share = cap}};
    limiter b{home, {.share = cap}};
    caller& rated = w.make_caller(home);
    caller& other = w.make_caller(home);
    rated.acquire(a);
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("asks and gives back", [&] { (void)b.try_acquire(); });
    w.thread("asks", [&] { other.acquire(b); });
    w.run();
    w.expect(rated.was_let_in() != other.was_let_in(), "not exactly one was let in");
    (rated.was_let_in() ? rated : other).held.release();
    w.run();
    w.expect(rated.was_let_in() && other.was_let_in(), "the wake-up was lost");
    expect_conserved(w, cap, {&a, &b}, 1);
  });
}

TEST_CASE("a context goes while a shared place comes back to one who waits there", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    elsewhere there{w.now()};
    shared_cap cap{{.permits = 1}};
    limiter a{home, {.share = cap}};
    limiter b{there.get_executor(), {.share = cap}};
    caller& next = w.make_caller(home);
    bool was_called = false;
    std::optional<permit> out = a.try_acquire();
    b.async_acquire({}, [&](std::error_code, permit) { was_called = true; });
    next.acquire(a);
    w.thread("context", [&] { there.end(); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    w.expect(!was_called, "called by a context that was going");
    w.expect(!there.was_posted_to_late, "posted to a context that is gone");
    w.expect(next.was_let_in(), "the place was lost");
    expect_conserved(w, cap, {&a, &b}, 1);
  });
}

TEST_CASE("a limiter and its context go while a shared place comes back to one who waits there", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    elsewhere there{w.now()};
    shared_cap cap{{.permits = 1}};
    limiter a{home, {.share = cap}};
    auto b = std::make_unique<limiter>(net::any_io_executor{there.get_executor()}, limiter_options{.share = cap});
    caller& next = w.make_caller(home);
    std::optional<permit> out = b->try_acquire();
    b->async_acquire({}, [&](std::error_code, permit) {});
    next.acquire(a);
    w.thread("context", [&] { there.end(); });
    w.thread("destroys", [&] { b.reset(); });
    w.thread("gives back", [&] { out.reset(); });
    w.run();
    there.end();
    w.run();
    w.expect(next.was_let_in(), "the place was lost");
    expect_conserved(w, cap, {&a}, 1);
  });
}
