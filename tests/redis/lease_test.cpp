// The lease of a process: what is granted or kept counts as long as it lasts, and not an instant more.
#include "canigo/detail/context/context_service.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "../lib/redis/sync.hpp"
#include "redis/member.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/bind_executor.hpp>
#include <asio/io_context.hpp>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

using namespace redis_test;
using namespace std::chrono_literals;

TEST_CASE("a permit whose lease ends on its way to the caller is not given to it [realtime]", "[realtime]") {
  // It was told, or it does not know it yet.
  for (const bool is_told : {true, false}) {
    CAPTURE(is_told);
    redis_server server;
    drained io;
    member m{io, server.url(), {.permits = 1, .lease = 200ms, .quarantine = false}};
    net::io_context callers;
    std::optional<std::error_code> ec;
    std::uint64_t held = 7;
    m.slots.async_acquire({}, net::bind_executor(callers, [&](std::error_code e, const redis::permit& p) {
                            ec = e;
                            held = p.held();
                          }));
    run_until(io, [&] { return m.slots.stats().granted == 1; });
    server.pause();
    if (is_told) {
      run_until(io, [&] { return m.slots.stats().lost_leases == 1; });
    } else {
      std::this_thread::sleep_for(250ms);
    }
    CHECK_FALSE(ec);
    callers.run();
    server.resume();
    REQUIRE(ec);
    CHECK(*ec == errc::lease_lost);
    CHECK(held == 0);
  }
}

TEST_CASE("a permit that is kept is not had after its lease, though nobody has noticed [realtime]", "[realtime]") {
  redis_server server;
  drained io;
  member m{io, server.url(), {.permits = 1, .lease = 1s, .horizon = 1s, .quarantine = false}};
  run(io, m.slots.acquire()).release();
  CHECK(m.slots.stats().idle == 1);
  std::this_thread::sleep_for(950ms);
  CHECK_FALSE(m.slots.try_acquire());
}

TEST_CASE("a permit that comes back after the end is not kept") {
  redis_server server;
  drained io;
  const redis::semaphore_options o{.permits = 1, .lease = 1min, .horizon = 1min, .quarantine = false};
  member a{io, server.url(), o};
  member b{io, server.url(), o};
  auto p = run(io, a.slots.acquire());
  a.slots.stop();
  p.release();
  CHECK(a.slots.stats().idle == 0);
  const auto got = run(io, b.slots.acquire());
  CHECK(got.held() == 1);
}

TEST_CASE("who is answered that it has spoken before begins anew when its lease has ended [realtime]", "[realtime]") {
  redis_server server;
  drained io;
  member m{io, server.url(), {.permits = 2, .lease = 200ms, .quarantine = false}};
  auto p = run(io, m.slots.acquire());
  // As if a copy of this process, such as a virtual machine that was cloned, had gone on in its name.
  const std::string state = "{canigo:default:crm}:s:state";
  const std::string session = run(io, m.client.run("ZRANGE", "{canigo:default:crm}:s:sess", 0, 0)).elements()[0].text();
  std::string text = run(io, m.client.run("HGET", state, session)).text();
  const std::array<double, 1> many{1'000'000};
  run(io, m.client.run("HSET", state, session, text.replace(8, 8, redis::detail::packed(many))));
  run_until(io, [&] { return p.held() == 0; });
  const auto next = run(io, m.slots.acquire());
  CHECK(next.held() == 1);
  CHECK(m.slots.stats().lost_leases >= 1);
}

TEST_CASE("whoever's deadline comes before the first answer is told that there is no Redis") {
  redis_server server;
  drained io;
  member m{io, server.url(), {.permits = 1, .lease = 1min, .quarantine = false}};
  server.pause();
  waiting w{m.slots, {.deadline = steady::now() + 20ms}};
  run_until(io, [&] { return w.ended(); });
  server.resume();
  CHECK(*w.ec == errc::store_unavailable);
}

TEST_CASE("a pause holds while Redis is down, whatever is to be done then") {
  redis_server server;
  drained io;
  redis::client client{io, server.url()};
  redis::scheduler quota{client, "crm", {.rate = rate::per_second(1000), .on_failure = redis::failure_mode::open()}};
  const auto ask = [&]() -> net::awaitable<int> {
    co_await quota.acquire(0);
    co_return 0;
  };
  run(io, ask());
  server.kill();
  const auto until = steady::now() + 300ms;
  quota.pause_until(until);
  run(io, ask());
  CHECK(steady::now() >= until);
  CHECK(quota.stats().granted_locally == 1);
}

TEST_CASE("a limit outlives its context, also where time goes first, and drops who asks then") {
  auto io = std::make_unique<net::io_context>();
  // What is made first goes last: the time does, as a rule.
  net::use_service<canigo::detail::context_service>(*io);
  redis::client client{*io, "unix:/nonexistent/redis.sock"};
  redis::semaphore slots{client, "crm", {.permits = 1, .lease = 60ms}};
  redis::scheduler quota{client, "crm", {.rate = rate::per_second(1)}};
  waiting w{slots, {.deadline = steady::now() + 1h}};
  while (slots.stats().failed_calls == 0) io->run_one_for(5ms);
  io.reset();
  CHECK_FALSE(w.ended());
  bool is_told = false;
  slots.async_acquire({}, [&](std::error_code, const redis::permit&) { is_told = true; });
  CHECK_FALSE(is_told);
  CHECK_FALSE(slots.try_acquire());
  slots.pause();
  CHECK_FALSE(quota.try_acquire());
  CHECK(quota.estimate({}) == canigo::duration::max());
}
