// Clients that are killed, and connections that are cut, at every point of what they say: D3, D4.
#include "canigo/error.hpp"
#include "canigo/redis/semaphore.hpp"
#include "canigo/timeout.hpp"

#include "redis/member.hpp"
#include "redis/process.hpp"
#include "redis/proxy.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

using way = proxy::way;

/// Late by so much is not late: what scenarios in real time are allowed.
constexpr auto tolerance = is_sanitized ? 50ms : 20ms;

/// Everything that a client says: it waits behind itself, is woken by push, and gives back what it has.
net::awaitable<void> say_everything(redis::semaphore& slots) {
  auto first = co_await slots.acquire();
  const auto executor = co_await net::this_coro::executor;
  bool has_second = false;
  net::co_spawn(
      executor,
      [&]() -> net::awaitable<void> {
        const auto second = co_await slots.acquire();
        has_second = true;
      },
      net::detached);
  while (slots.stats().waiting_of_all == 0) co_await canigo::sleep_for(1ms);
  co_await canigo::sleep_for(5ms);  // it has subscribed by then
  first.release();
  while (!has_second || slots.stats().held != 0) co_await canigo::sleep_for(1ms);
}

/// Where a command ends in what a client says.
std::vector<std::size_t> ends_of_commands(std::string_view said) {
  std::vector<std::size_t> ends;
  std::size_t at = 0;
  while (at < said.size()) {
    auto parts = std::stoul(std::string{said.substr(at + 1, 10)});
    at = said.find("\r\n", at) + 2;
    while (parts-- > 0) {
      const auto length = std::stoul(std::string{said.substr(at + 1, 10)});
      at = said.find("\r\n", at) + 2 + length + 2;
    }
    ends.push_back(at);
  }
  return ends;
}

}  // namespace

TEST_CASE("D3 every holder is killed: somebody else is let in within 1.3 s at a lease of 1 s [realtime]",
          "[realtime]") {
  const redis::semaphore_options o{.permits = 6, .lease = 1s, .quarantine = false};
  // How long it takes until all six places are somebody else's.
  const auto after_the_kill = [&] {
    redis_server server;
    std::vector<process> holders;
    for (int i = 0; i < 3; ++i) {
      holders.push_back(ready_process([&](auto ready) {
        net::io_context io;
        member m{io, server.url(), o};
        const auto p = run(io, m.slots.acquire({.tokens = 2}));
        ready();
        io.restart();
        io.run();
      }));
    }
    net::io_context io;
    member m{io, server.url(), o};
    std::vector<std::unique_ptr<waiting>> all;
    for (int i = 0; i < 6; ++i) all.push_back(std::make_unique<waiting>(m.slots, canigo::request{}));
    run_until(io, [&] { return m.slots.stats().waiting_of_all == 6; });
    run_for(io, 700ms);  // the leases are renewed
    for (auto& h : holders) h.kill();
    const auto begin = steady::now();
    run_until(io, [&] { return std::all_of(all.begin(), all.end(), [](const auto& w) { return w->ended(); }); });
    auto last = begin;
    for (const auto& w : all) {
      CHECK(w->p.held() == 1);
      last = std::max(last, w->at);
    }
    return last - begin;
  };
  // A machine that is held up lets them in late, so of 10 tries the best counts.
  auto best = after_the_kill();
  for (int i = 1; i < 10 && best > 1300ms + tolerance; ++i) best = std::min(best, after_the_kill());
  CHECK(best <= 1300ms + tolerance);
}

TEST_CASE("D4 a client is killed at every command, and in the middle of it: nobody is blocked for ever [realtime]",
          "[realtime]") {
  redis_server server;
  net::io_context io;
  const redis::semaphore_options o{.permits = 1, .lease = 200ms, .quarantine = false};
  // Which of the two connections speaks first is left to chance: the points are those of one run.
  std::vector<std::size_t> points;
  {
    proxy p{io, server.folder() / "all.sock", server.path()};
    redis::client client{io, p.url()};
    redis::semaphore slots{client, "all", o};
    const auto all = [&]() -> net::awaitable<int> {
      co_await say_everything(slots);
      co_return 0;
    };
    run(io, all());
    std::size_t before = 0;
    for (const auto end : ends_of_commands(p.said())) {
      points.push_back((before + end) / 2);
      points.push_back(end);
      before = end;
    }
    p.close();
  }
  REQUIRE(points.size() > 10);
  for (const auto point : points) {
    const std::string name = std::to_string(point);
    proxy p{io, server.folder() / name, server.path()};
    process victim{[&] {
      net::io_context own;
      redis::client client{own, p.url()};
      redis::semaphore slots{client, name, o};
      const auto all = [&]() -> net::awaitable<int> {
        co_await say_everything(slots);
        co_return 0;
      };
      run(own, all());
    }};
    p.cut_once({way::to_redis, point}, [&] { victim.kill(); });
    run_until(io, [&] { return p.has_cut() || victim.has_ended(); });
    p.close();
  }
  // By now most leases have run out; whoever asks is let in.
  redis::client client{io, server.url()};
  for (const auto point : points) {
    redis::semaphore slots{client, std::to_string(point), o};
    const auto p = run(io, slots.acquire());
    CHECK(p.held() == 1);
  }
}

TEST_CASE("D4 connections are cut at every byte, in both directions: all are served [realtime]", "[realtime]") {
  redis_server server;
  net::io_context io;
  const redis::semaphore_options o{.permits = 1, .lease = 1s, .quarantine = false};
  struct trial {
    trial(net::io_context& c, const redis_server& server, const std::string& name, const redis::semaphore_options& o)
        : p{c, server.folder() / name, server.path()},
          client{c, p.url(), {.reconnect = {.first = 1ms, .cap = 5ms}}},
          slots{client, name, o} {}
    net::awaitable<void> play() {
      co_await say_everything(slots);
      ended = true;
    }
    proxy p;
    redis::client client;
    redis::semaphore slots;
    bool ended = false;
  };
  std::size_t bytes[2] = {};
  {
    trial whole{io, server, "whole", o};
    net::co_spawn(io, whole.play(), net::detached);
    run_until(io, [&] { return whole.ended; });
    for (const auto w : {way::to_redis, way::to_client}) bytes[static_cast<int>(w)] = whole.p.passed(w);
    whole.p.close();
  }
  for (const auto w : {way::to_redis, way::to_client}) {
    // What passes at login says little: every eleventh byte of it all, and many at a time.
    constexpr std::size_t together = 24;
    constexpr std::size_t step = 11;
    for (std::size_t from = 0; from < bytes[static_cast<int>(w)]; from += together * step) {
      std::vector<std::unique_ptr<trial>> trials;
      for (std::size_t i = 0; i < together; ++i) {
        const auto name = std::to_string(static_cast<int>(w)) + "-" + std::to_string(from + i * step);
        trials.push_back(std::make_unique<trial>(io, server, name, o));
        trials.back()->p.cut_once({w, from + i * step});
        net::co_spawn(io, trials.back()->play(), net::detached);
      }
      const auto all_ended = [&] {
        return std::ranges::all_of(trials, [](const auto& t) { return t->ended && t->slots.stats().held_by_all == 0; });
      };
      // So many members on a busy machine lose leases to each other's delays.
      run_until(io, all_ended, 5min);
      for (const auto& t : trials) t->p.close();
    }
  }
}
