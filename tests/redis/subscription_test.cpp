// The second connection of a client, by which it is told what is published.
#include "canigo/redis/semaphore.hpp"

#include "../lib/redis/engine.hpp"
#include "redis/member.hpp"
#include "redis/proxy.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <system_error>

using namespace redis_test;
using namespace std::chrono_literals;

TEST_CASE("a subscription goes with its context, at whichever step of its client's end that is [realtime]",
          "[realtime]") {
  redis_server server;
  int steps = 0;
  for (bool has_ended = false; !has_ended; ++steps) {
    auto io = std::make_unique<net::io_context>();
    std::weak_ptr<redis::detail::subscriber> left;
    {
      redis::client client{*io, server.url()};
      redis::semaphore slots{client, std::to_string(steps), {.permits = 1, .lease = 1s, .quarantine = false}};
      auto p = run(*io, slots.acquire());
      slots.async_acquire({}, [](std::error_code, const redis::permit&) {});
      while (run(*io, client.run("PUBSUB", "CHANNELS")).elements().empty()) {
      }
      left = redis::detail::engine_of(client).subscriptions();
    }
    CHECK_FALSE(left.expired());
    io->restart();
    for (int i = 0; i < steps; ++i) io->poll_one();
    has_ended = left.expired();
    io.reset();
    INFO("after " << steps << " steps");
    CHECK(left.expired());
  }
  CHECK(steps > 2);
}

TEST_CASE("a subscription that has gone silent is found by what it loses, each time, and made anew [realtime]",
          "[realtime]") {
  redis_server server;
  net::io_context io;
  const redis::semaphore_options o{.permits = 1, .lease = 2s, .quarantine = false};
  member a{io, server.url(), o};
  proxy between{io, server.folder() / "proxy.sock", server.path()};
  redis::client client{io, between.url(), {.connect_timeout = 2s}};
  redis::semaphore slots{client, "crm", o};
  auto p = run(io, a.slots.acquire());
  for (int round = 0; round < 2; ++round) {
    waiting next{slots, {}};
    run_until(io, [&] { return between.newest_listens() && slots.stats().waiting_of_all == 1; });
    const std::size_t connections = between.connections();
    CHECK(connections >= 2);
    between.silence_listeners();
    p.release();
    // Served by the next question, as the message is lost; and what lost it goes.
    run_until(io, [&] { return next.ended(); });
    CHECK(next.p.held() == 1);
    run_until(io, [&] { return between.connections() > connections; });
    waiting back{a.slots, {}};
    next.p.release();
    run_until(io, [&] { return back.ended(); });
    p = std::move(back.p);
  }
  waiting last{slots, {}};
  run_until(io, [&] { return slots.stats().waiting_of_all == 1; });
  p.release();
  run_until(io, [&] { return last.ended(); });
  CHECK(last.p.held() == 1);
  between.close();
}

TEST_CASE("a subscription follows the commands of its client to another server [realtime]", "[realtime]") {
  redis_server before, after;
  net::io_context io;
  const redis::semaphore_options o{.permits = 1, .lease = 1min, .quarantine = false};
  member a{io, before.url(), o}, b{io, after.url(), o};
  proxy between{io, before.folder() / "proxy.sock", before.path()};
  redis::client client{io, between.url()};
  redis::semaphore slots{client, "crm", o};
  const auto p = run(io, a.slots.acquire());
  auto q = run(io, b.slots.acquire());
  waiting w{slots, {}};
  run_until(io, [&] { return between.newest_listens() && slots.stats().waiting_of_all == 1; });
  between.move_to(after.path());
  const auto give_up = steady::now() + 60s;
  while (run(io, b.client.run("PUBSUB", "CHANNELS")).elements().empty()) {
    REQUIRE(steady::now() < give_up);
    run_for(io, 1ms);
  }
  q.release();
  run_until(io, [&] { return w.ended(); });
  CHECK(w.p.held() == 1);
  between.close();
}
