#include "canigo/detail/context/delivery.hpp"

#include "canigo/detail/context/suspend.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/testing/virtual_time.hpp"

#include "support/catch.hpp"
#include "support/fickle_executor.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

using namespace std::chrono_literals;
namespace net = canigo::net;
using canigo::detail::delivery;
using canigo::detail::suspended;

namespace delivery_run {

/// A delivery with nothing to decide.
class engine final : public delivery {
 public:
  explicit engine(const net::any_io_executor& executor) : delivery{executor} { join(); }

  void end_waits(std::initializer_list<suspended*> callers, bool at_home) {
    const change c{*this};
    for (suspended* s : callers) make_ready(*s, at_home);
  }
  void call(suspended& s) {
    const change c{*this};
    post_soon(s);
  }
  void hold(bool is_held) {
    const change c{*this};
    is_held ? hold_loop() : release_loop();
  }
  std::function<void()> on_turn;

 private:
  void run_turn() override {
    if (on_turn) on_turn();
    delivery::run_turn();
  }
  void end_with_context() noexcept override {
    canigo::detail::suspended_list all;
    {
      const std::lock_guard lock{mutex_};
      context_gone_ = true;
      all.append(take_all());
    }
    while (suspended* s = all.pop()) s->destroy();
    const std::lock_guard lock{mutex_};
    let_go_of_context();
  }
};

struct caller final : suspended {
  caller(std::string& s, const char* n, net::any_io_executor e = {}) : said{s}, name{n}, elsewhere{std::move(e)} {}
  void resume() override {
    said += name;
    if (then) then();
    if (of != nullptr) of->release_ref();
  }
  void post() override { canigo::detail::post_resumption(elsewhere, *this, std::allocator<void>{}); }
  void destroy() noexcept override {
    said += '-';
    said += name;
    if (of != nullptr) of->release_ref();
  }
  std::string& said;
  const char* name;
  net::any_io_executor elsewhere;
  std::function<void()> then;
  engine* of = nullptr;  // whose reference it holds
};

}  // namespace delivery_run

using namespace delivery_run;

TEST_CASE("a delivery resumes ready callers later, in their order", "[delivery]") {
  net::io_context io;
  std::string said;
  caller a{said, "a"}, b{said, "b"}, c{said, "c"};
  auto* e = new engine{io.get_executor()};
  int turns = 0;
  e->on_turn = [&] { ++turns; };
  a.then = [&] { e->end_waits({&c}, true); };
  e->end_waits({&a, &b}, true);
  CHECK(said.empty());
  io.run();
  CHECK(said == "abc");
  CHECK(turns >= 1);
  e->release_ref();
}

TEST_CASE("a delivery posts a foreign caller to its own executor", "[delivery]") {
  net::io_context io, other;
  std::string said;
  caller a{said, "a", other.get_executor()};
  auto* e = new engine{io.get_executor()};
  a.of = e;
  e->end_waits({&a}, false);
  e->release_ref();  // it lives by the caller's
  io.run();
  CHECK(said.empty());
  other.run();
  CHECK(said == "a");
}

TEST_CASE("a delivery tries again what there was no memory to post", "[delivery]") {
  mood now = mood::throws;
  net::io_context io;
  canigo::testing::virtual_time time{io};
  const net::any_io_executor executor = fickle_executor{io, [&now] { return now; }};
  std::string said;
  caller a{said, "a"}, b{said, "b", executor}, c{said, "c", executor};
  auto* e = new engine{executor};
  b.of = c.of = e;
  e->end_waits({&a}, true);
  e->end_waits({&b}, false);
  e->call(c);
  time.run_for(3ms);
  CHECK(said.empty());
  now = mood::posts;
  time.run();
  CHECK(said.size() == 3);
  e->release_ref();
}

TEST_CASE("callers that a throw leaves behind are resumed in the next turn", "[delivery]") {
  net::io_context io;
  std::string said;
  caller a{said, "a"}, b{said, "b"};
  a.then = [] { throw std::runtime_error{"a caller"}; };
  auto* e = new engine{io.get_executor()};
  e->end_waits({&a, &b}, true);
  CHECK_THROWS_AS(io.run(), std::runtime_error);
  io.run();
  CHECK(said == "ab");
  e->release_ref();
}

TEST_CASE("a delivery destroys what its context can't call any more, and still posts elsewhere", "[delivery]") {
  auto io = std::make_unique<net::io_context>();
  net::io_context other;
  std::string said;
  caller a{said, "a"}, b{said, "b", other.get_executor()}, c{said, "c"}, d{said, "d"};
  auto* e = new engine{io->get_executor()};
  b.of = c.of = e;
  e->end_waits({&d}, true);
  io.reset();
  CHECK(said == "-d");
  e->end_waits({&a}, true);
  CHECK(said == "-d-a");
  e->call(c);
  CHECK(said == "-d-a-c");
  e->end_waits({&b}, false);
  other.run();
  CHECK(said == "-d-a-cb");
  e->release_ref();
}

TEST_CASE("a delivery keeps its loop running while there is a reason", "[delivery]") {
  net::io_context io;
  auto* e = new engine{io.get_executor()};
  e->hold(true);
  io.poll();
  CHECK_FALSE(io.stopped());
  e->hold(false);
  io.poll();
  CHECK(io.stopped());
  e->release_ref();
}

TEST_CASE("many that are resumed at once leave others of their loop a turn", "[delivery][loop_turns]") {
  constexpr int many = 1000;
  net::io_context io;
  canigo::semaphore s{io, {.permits = 1}};
  const auto taken = s.try_acquire();
  int resumed = 0;
  int before_another = 0;
  for (int i = 0; i < many; ++i) {
    s.async_acquire({}, [&](std::error_code, const canigo::permit&) {
      if (++resumed == 1) net::post(io, [&] { before_another = resumed; });
    });
  }
  s.stop();
  io.run();
  CHECK(resumed == many);
  CHECK(before_another > 0);
  CHECK(before_another < many / 2);
}
