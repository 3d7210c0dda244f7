// Gate and wait_group under every order of coming, leaving and waiting for the last.

#include "canigo/gate.hpp"
#include "canigo/wait_group.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <memory>
#include <optional>

using canigo::errc;
using canigo::gate;
using canigo::permit;
using canigo::wait_group;
using interleaving::caller;
using interleaving::world;

namespace {
namespace net = canigo::net;
}

TEST_CASE("the last one leaves while the gate is closed", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    gate g{home};
    std::optional<permit> inside = g.try_enter();
    caller& closer = w.make_caller(home);
    bool has_left = false;
    w.thread("closes", [&] { g.async_close(closer.handler()); });
    w.thread("leaves", [&] {
      has_left = true;
      inside.reset();
    });
    w.run();
    w.expect(closer.was_let_in(), "the wake-up was lost");
    w.expect(has_left && g.count() == 0, "closed too early");
  });
}

TEST_CASE("one comes in while the gate is closed", "[interleaving]") {
  explore(4, [](world& w) {
    const auto home = w.make_loop("loop");
    gate g{home};
    caller& closer = w.make_caller(home);
    std::optional<permit> inside;
    w.thread("closes", [&] { g.async_close(closer.handler()); });
    w.thread("comes and leaves", [&] {
      inside = g.try_enter();
      if (inside && closer.calls > 0) w.expect(false, "closed, and somebody is inside");
      inside.reset();
    });
    w.run();
    w.expect(closer.was_let_in(), "the wake-up was lost");
    w.expect(!g.try_enter(), "open again");
  });
}

TEST_CASE("two close the gate, and one of them gives up", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    gate g{home};
    std::optional<permit> inside = g.try_enter();
    caller& a = w.make_caller(own);
    caller& b = w.make_caller(home);
    own.execute([&] { g.async_close(a.handler()); });
    a.cancel();
    w.thread("closes", [&] { g.async_close(b.handler()); });
    w.thread("leaves", [&] { inside.reset(); });
    w.run();
    w.expect(a.calls == 1, "not answered exactly once");
    w.expect(b.was_let_in(), "the wake-up was lost");
  });
}

TEST_CASE("a gate goes while the last one leaves", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    auto g = std::make_unique<gate>(net::any_io_executor{home});
    std::optional<permit> inside = g->try_enter();
    caller& closer = w.make_caller(home);
    g->async_close(closer.handler());
    w.thread("destroys", [&] { g.reset(); });
    w.thread("leaves", [&] { inside.reset(); });
    w.run();
    w.expect(closer.calls == 1, "not answered exactly once");
    w.expect(closer.was_let_in() || closer.error == errc::stopped, "another end");
  });
}

TEST_CASE("the last two are done while one waits", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    wait_group g{home};
    g.add(2);
    caller& a = w.make_caller(home);
    w.thread("waits", [&] { g.async_wait(a.handler()); });
    w.thread("is done", [&] { g.done(); });
    w.thread("is done too", [&] { g.done(); });
    w.run();
    w.expect(a.was_let_in(), "the wake-up was lost");
    w.expect(g.count() == 0, "the count is wrong");
  });
}

TEST_CASE("the count rises again while one waits for zero", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    wait_group g{home};
    g.add();
    caller& a = w.make_caller(home);
    g.async_wait(a.handler());
    w.thread("goes on", [&] {
      g.done();
      g.add();
    });
    w.run();
    w.expect(a.was_let_in(), "who waited missed the zero");
    w.expect(g.count() == 1, "the count is wrong");
  });
}

TEST_CASE("a wait group goes while it comes to zero and its waiter gives up", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    auto g = std::make_unique<wait_group>(net::any_io_executor{home});
    g->add();
    caller& a = w.make_caller(own);
    g->async_wait(a.handler());
    w.thread("is done, then destroys", [&] {
      g->done();
      g.reset();
    });
    w.thread("gives up", [&] { a.cancel(); });
    w.run();
    w.expect(a.calls == 1, "not answered exactly once");
  });
}
