// The inbox of a loop under every order of what those who come and those who look out do.

#include "canigo/detail/context/loop_inbox.hpp"

#include "canigo/detail/context/work_item.hpp"
#include "canigo/net.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <asio/io_context.hpp>

#include <array>

namespace net = canigo::net;
using canigo::detail::loop_inbox;
using canigo::detail::suspended;
using interleaving::world;

namespace {

struct comer final : suspended {
  void resume() override { ++resumed; }
  void post() override { was_posted = true; }
  void destroy() noexcept override { was_destroyed = true; }
  bool came_home() const { return resumed == 1 && !was_posted && !was_destroyed; }

  int resumed = 0;
  bool was_posted = false;
  bool was_destroyed = false;
};

/// A loop whose threads have nothing to do: they look out, and then they wait until something is posted.
struct idle_loop {
  void serve() {
    io.restart();
    io.poll();
  }

  net::io_context io;
  loop_inbox& inbox = loop_inbox::of(io);
};

}  // namespace

TEST_CASE("who comes while a thread looks out is resumed, without a post or by one", "[interleaving]") {
  explore(2, [](world& w) {
    idle_loop loop;
    std::array<comer, 2> comers;
    w.thread("looks out", [&] { loop.inbox.look_out(); });
    for (comer& c : comers) w.thread("comes", [&loop, &c] { loop.inbox.push(c); });
    w.run();
    loop.serve();
    for (const comer& c : comers) w.expect(c.came_home(), "one who came was not resumed once");
  });
}

TEST_CASE("who comes while one thread looks out and another serves the others is resumed", "[interleaving]") {
  explore(2, [](world& w) {
    idle_loop loop;
    std::array<comer, 3> comers;
    loop.inbox.push(comers[0]);
    w.thread("looks out", [&] { loop.inbox.look_out(); });
    w.thread("serves", [&] { loop.serve(); });
    for (std::size_t i : {1, 2}) w.thread("comes", [&loop, &c = comers[i]] { loop.inbox.push(c); });
    w.run();
    loop.serve();
    for (const comer& c : comers) w.expect(c.came_home(), "one who came was not resumed once");
  });
}

TEST_CASE("who comes while two threads look out is resumed when the last one has looked", "[interleaving]") {
  explore(2, [](world& w) {
    idle_loop loop;
    comer c;
    for (int i = 0; i < 2; ++i) w.thread("looks out", [&] { loop.inbox.look_out(); });
    w.thread("comes", [&] { loop.inbox.push(c); });
    w.run();
    loop.serve();
    w.expect(c.came_home(), "one who came was not resumed once");
  });
}
