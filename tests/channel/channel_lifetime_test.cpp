// A channel, those who wait at it, its values and their contexts may go in any order.

#include "canigo/channel.hpp"
#include "canigo/work_stealing.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace canigo;

namespace {

/// A value that says how many there are.
class living {
 public:
  explicit living(int& alive, int n = 0) : number{n}, alive_{&alive} { ++alive; }
  living(living&& other) noexcept : number{other.number}, alive_{std::exchange(other.alive_, nullptr)} {}
  living& operator=(living&& other) noexcept {
    std::swap(alive_, other.alive_);
    std::swap(number, other.number);
    return *this;
  }
  ~living() {
    if (alive_ != nullptr) --*alive_;
  }
  int number;

 private:
  int* alive_;
};

using living_channel = channel<living>;

struct channel_ends {
  std::vector<std::error_code> sends, receives;
  std::vector<int> got;
};

auto on_sent(channel_ends& e) {
  return [&e](std::error_code how) { e.sends.push_back(how); };
}
auto on_received(channel_ends& e) {
  return [&e](std::error_code how, std::optional<living> v) {
    e.receives.push_back(how);
    if (v) e.got.push_back(v->number);
  };
}

std::vector<std::error_code> that_often(std::size_t n, std::error_code e) { return std::vector<std::error_code>(n, e); }

}  // namespace

TEST_CASE("destroying a channel ends all who wait as stopped, and destroys its values", "[channel]") {
  limits_run run;
  int alive = 0;
  channel_ends e;
  std::error_code in_coroutine;
  {
    living_channel c{run.io, {.capacity = 1}};
    CHECK(c.try_send(living{alive}));
    c.async_send(living{alive}, on_sent(e));
    run.go([&]() -> net::awaitable<void> { in_coroutine = co_await outcome_of(c.send(living{alive})); });
    run.time.run();
    CHECK(alive == 3);
  }
  CHECK((e.sends.empty() && alive == 2));  // by a post
  run.time.run();
  CHECK((e.sends == that_often(1, errc::stopped) && in_coroutine == errc::stopped && alive == 0));
  {
    living_channel c{run.io, {.capacity = 1}};
    c.async_receive(on_received(e));
    run.go([&]() -> net::awaitable<void> { in_coroutine = co_await outcome_of(c.receive()); });
    run.time.run();
    in_coroutine = {};
  }
  run.time.run();
  CHECK((e.receives == that_often(1, errc::stopped) && in_coroutine == errc::stopped));
}

TEST_CASE("a value that was promised reaches its receiver although the channel is destroyed", "[channel]") {
  limits_run run;
  int alive = 0;
  channel_ends e;
  std::vector<int> in_coroutine;
  {
    living_channel c{run.io, {.capacity = 4, .priorities = 2}};
    c.async_receive(on_received(e));
    run.go([&]() -> net::awaitable<void> {
      const living w = co_await c.receive();
      in_coroutine.push_back(w.number);
    });
    run.time.run();
    CHECK((c.try_send(living{alive, 3}, 1) && c.try_send(living{alive, 1}) && c.try_send(living{alive, 2})));
    CHECK(c.try_send(living{alive, 4}, 1));
  }
  CHECK(alive == 2);  // the two most important ones
  run.time.run();
  CHECK((e.receives == that_often(1, {}) && e.got == std::vector{1} && in_coroutine == std::vector{2} && alive == 0));
}

TEST_CASE("a receiver that is destroyed after its channel destroys the value that it was promised", "[channel]") {
  net::io_context io;
  int alive = 0;
  channel_ends e;
  auto first = std::make_unique<net::io_context>();
  auto second = std::make_unique<net::io_context>();
  {
    living_channel c{io, {.capacity = 4}};
    c.async_receive(net::bind_executor(*first, on_received(e)));
    c.async_receive(net::bind_executor(*second, on_received(e)));
    CHECK((c.try_send(living{alive, 1}) && c.try_send(living{alive, 2}) && c.try_send(living{alive, 3})));
  }
  CHECK(alive == 2);
  first.reset();
  CHECK(alive == 1);
  second->run();
  CHECK((e.got == std::vector{1} && alive == 0));
}

TEST_CASE("the io_context goes before a channel, with senders or receivers of every kind", "[channel]") {
  int alive = 0;
  channel_ends e;
  auto io = std::make_unique<net::io_context>();
  living_channel c{*io, {.capacity = 2, .priorities = 2}};
  const auto fill = [&](int values) {
    for (int i = 0; i < values; ++i) CHECK(c.try_send(living{alive, i}));
  };
  const auto wait_to_send = [&] {
    c.async_send(living{alive}, on_sent(e));
    net::co_spawn(*io, [&]() -> net::awaitable<void> { co_await c.send(living{alive}); }, net::detached);
    io->poll();
  };
  const auto wait_to_receive = [&] {
    c.async_receive(on_received(e));
    net::co_spawn(*io, [&]() -> net::awaitable<void> { co_await c.receive(); }, net::detached);
    io->poll();
  };
  int left = 0;
  SECTION("senders that wait") {
    fill(2);
    wait_to_send();
    left = 2;
  }
  SECTION("senders whose values came in, not told") {
    fill(2);
    wait_to_send();
    CHECK((c.try_receive() && c.try_receive()));
    left = 2;
  }
  SECTION("senders that close() ended, not told") {
    fill(2);
    wait_to_send();
    c.close();
    left = 2;
  }
  SECTION("receivers that wait") { wait_to_receive(); }
  SECTION("receivers with a value promised, not told") {
    wait_to_receive();
    fill(2);
    left = 2;
  }
  SECTION("receivers that close() ended, not told") {
    wait_to_receive();
    c.close();
  }
  io.reset();
  CHECK((e.sends.empty() && e.receives.empty()));
  CHECK(alive == left);
  // All that is left can be taken, and everything else is refused.
  for (int i = 0; i < left; ++i) CHECK(c.try_receive());
  CHECK_FALSE(c.try_receive());
  CHECK_FALSE(c.try_send(living{alive}));
  CHECK((c.is_closed() && c.stats().senders == 0 && c.stats().receivers == 0));
  c.close();
  CHECK(alive == 0);
}

TEST_CASE("a channel without its context refuses those of other contexts", "[channel]") {
  int alive = 0;
  channel_ends e;
  auto home = std::make_unique<net::io_context>();
  net::io_context elsewhere;
  living_channel c{*home, {.capacity = 2}};
  CHECK(c.try_send(living{alive, 1}));
  c.async_receive(net::bind_executor(elsewhere, on_received(e)));
  home.reset();
  c.async_receive(net::bind_executor(elsewhere, on_received(e)));
  c.async_send(living{alive}, net::bind_executor(elsewhere, on_sent(e)));
  elsewhere.run();
  CHECK(e.receives == std::vector<std::error_code>{{}, errc::stopped});
  CHECK((e.got == std::vector{1} && e.sends == that_often(1, errc::stopped) && alive == 0));
}

TEST_CASE("a coroutine that the context destroys may own the channel and its capacity", "[channel]") {
  int alive = 0;
  auto io = std::make_unique<net::io_context>();
  net::co_spawn(
      *io,
      [&]() -> net::awaitable<void> {
        const channel_capacity shared{*io, {.capacity = 1}};
        living_channel a{*io, {.shared = shared}};
        living_channel b{*io, {.shared = shared}};
        CHECK(a.try_send(living{alive}));
        b.async_send(living{alive}, net::detached);
        b.async_receive([&](std::error_code, std::optional<living>) { FAIL("called"); });
        co_await a.send(living{alive});
      },
      net::detached);
  io->poll();
  CHECK(alive == 3);
  io.reset();
  CHECK(alive == 0);
}

TEST_CASE("a handler that the channel calls may destroy it", "[channel]") {
  net::io_context io;
  int alive = 0;
  auto c = std::make_unique<living_channel>(io, channel_options<living>{.capacity = 1});
  int calls = 0;
  for (int i = 0; i < 3; ++i) {
    c->async_receive([&](std::error_code, std::optional<living>) {
      ++calls;
      c.reset();
    });
  }
  CHECK(c->try_send(living{alive}));
  io.run();
  CHECK((calls == 3 && alive == 0));
}

TEST_CASE("a channel is destroyed while a coroutine lets others have a turn", "[channel]") {
  limits_run run;
  int alive = 0;
  auto c = std::make_unique<living_channel>(run.io, channel_options<living>{.capacity = 1000});
  std::error_code sends, receives;
  run.go([&]() -> net::awaitable<void> {
    net::post(run.io, [&] { c.reset(); });
    for (int i = 0; i < 128; ++i) co_await c->send(living{alive});
    sends = co_await outcome_of(c->send(living{alive}));
  });
  run.time.run();
  CHECK((sends == errc::stopped && alive == 0));
  c = std::make_unique<living_channel>(run.io, channel_options<living>{.capacity = 1000});
  for (int i = 0; i < 200; ++i) CHECK(c->try_send(living{alive}));
  run.go([&]() -> net::awaitable<void> {
    net::post(run.io, [&] { c.reset(); });
    for (int i = 0; i < 128; ++i) co_await c->receive();
    receives = co_await outcome_of(c->receive());
  });
  run.time.run();
  CHECK((receives == errc::stopped && alive == 0));
}

TEST_CASE("a channel lives on any executor of Asio, and on that of work_stealing", "[channel]") {
  const auto use = [](const net::any_io_executor& executor, const auto& run) {
    int alive = 0;
    living_channel c{executor, {.capacity = 1}};
    int sum = 0;
    net::co_spawn(
        executor,
        [&]() -> net::awaitable<void> {
          for (int i = 1; i <= 300; ++i) co_await c.send(living{alive, i});
          c.close();
        },
        net::detached);
    net::co_spawn(
        executor,
        [&]() -> net::awaitable<void> {
          std::error_code end;
          while (const std::optional<living> w = co_await c.receive(end)) sum += w->number;
          CHECK(end == errc::closed);
        },
        net::detached);
    run();
    CHECK((sum == 300 * 301 / 2 && alive == 0));
  };
  {
    net::io_context io;
    use(io.get_executor(), [&] { io.run(); });
    use(net::make_strand(io), [&] { io.restart(), io.run(); });
  }
  net::io_context io;
  work_stealing pool{io};
  use(pool.get_executor(), [&] { io.run(); });
}
