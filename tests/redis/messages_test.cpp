// What is published to a process, and what it makes of messages that are lost, late or nothing it knows.
#include "canigo/redis/semaphore.hpp"

#include "http/run.hpp"
#include "redis/listener.hpp"
#include "redis/member.hpp"
#include "redis/proxy.hpp"
#include "redis/run.hpp"
#include "redis/scripted.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

/// The channel by which this process is told what it waits for.
std::string channel_of(net::io_context& io, redis::client& c) {
  for (;;) {
    const redis::reply all = run(io, c.run("PUBSUB", "CHANNELS"));
    if (!all.elements().empty()) return all.elements().front().text();
  }
}

}  // namespace

TEST_CASE("a message that says nothing is as if there were none") {
  redis_server server;
  drained io;
  member m{io, server.url(), {.permits = 1, .lease = 1min, .quarantine = false}};
  auto p = run(io, m.slots.acquire());
  waiting next{m.slots, {}};
  const std::string channel = channel_of(io, m.client);
  for (const char* text : {"", "g", "g 1", "g 99 7 0", "x 99", "z 1", "t soon", "b 0"}) {
    CHECK(run(io, m.client.run("PUBLISH", channel, text)).integer() == 1);
  }
  // This one says that there is something to ask for.
  const auto calls = m.slots.stats().round_trips;
  run(io, m.client.run("PUBLISH", channel, "h 0"));
  run_until(io, [&] { return m.slots.stats().round_trips > calls; });
  CHECK_FALSE(next.ended());
  p.release();
  run_until(io, [&] { return next.ended(); });
  CHECK(next.p.held() == 1);
}

TEST_CASE("who waits for more than there is any more is told so, also where the message is lost") {
  for (const bool is_lost : {false, true}) {
    CAPTURE(is_lost);
    redis_server server;
    drained io;
    const redis::semaphore_options o{.permits = 2, .lease = is_lost ? 300ms : 1min, .quarantine = false};
    member other{io, server.url(), o};
    auto p = run(io, other.slots.acquire());
    proxy between{io, server.folder() / "proxy.sock", server.path()};
    member m{io, between.url(), o};
    waiting heavy{m.slots, {.tokens = 2}};
    waiting light{m.slots, {}};
    channel_of(io, m.client);
    if (is_lost) between.hold_published();
    other.slots.resize(1);
    run_until(io, [&] { return heavy.ended(); });
    CHECK(*heavy.ec == errc::too_large);
    CHECK_FALSE(light.ended());
    p.release();
    run_until(io, [&] { return light.ended(); });
    CHECK(light.p.held() == 1);
    CHECK(m.slots.stats().held_by_all <= 1);
    between.close();
  }
}

TEST_CASE("what is published for one that has gone concerns nobody") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  const auto s = redis::detail::engine_of(client).subscriptions();
  auto gone = std::make_shared<listener>();
  const auto here = std::make_shared<listener>();
  s->add("a", gone);
  s->add("b", here);
  run_until(io, [&] { return gone->times + here->times == 2; });
  gone.reset();
  run(io, client.run("PUBLISH", "a", "1"));
  run(io, client.run("PUBLISH", "b", "1"));
  run_until(io, [&] { return here->messages == 1; });
}

TEST_CASE("a second connection on which something else is said is made anew") {
  std::atomic<int> bad{0};
  const scripted_server server{[&](peer& p) -> net::awaitable<void> {
    co_await greet(p);
    co_await command_with(p, "news");
    if (++bad < 3) {
      co_await p.send(bad == 1 ? "+OK\r\n" : "*2\r\n$7\r\nmessage\r\n$4\r\nnews\r\n");
    } else {
      co_await p.send("*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    }
    co_await p.linger();
  }};
  net::io_context io;
  // Far longer than the test would wait: not after two failures.
  redis::client client{io, url_of(server), {.reconnect = {.first = 1ms, .cap = 1h, .jitter = canigo::jitter::none}}};
  const auto heard = std::make_shared<listener>();
  redis::detail::engine_of(client).subscriptions()->add("news", heard);
  run_until(io, [&] { return heard->times == 1; });
  CHECK(server.connections() == 3);
  CHECK(heard->losses == 2);
}

TEST_CASE("a process whose client stops listens no more when its lease has ended [realtime]", "[realtime]") {
  redis_server server;
  drained io;
  member m{io, server.url(), {.permits = 1, .lease = 150ms, .quarantine = false}};
  auto p = run(io, m.slots.acquire());
  waiting next{m.slots, {}};
  channel_of(io, m.client);
  m.client.stop();
  run_until(io, [&] { return p.held() == 0 && next.ec; });
  CHECK(*next.ec == errc::stopped);
  CHECK(m.slots.stats().lost_leases == 1);
}
