// What Redis has forgotten, or a message that comes too late, leaves nobody waiting and lets nobody in too many.
#include "canigo/error.hpp"
#include "canigo/redis/semaphore.hpp"

#include "catch.hpp"
#include "redis_member.hpp"
#include "redis_proxy.hpp"
#include "redis_run.hpp"
#include "redis_server.hpp"

#include <asio/io_context.hpp>

#include <chrono>

using namespace redis_test;
using namespace std::chrono_literals;
namespace redis = canigo::redis;
namespace net = canigo::net;

TEST_CASE("D4 one who waited when Redis forgot the queue is served none the less [realtime]", "[realtime]") {
  redis_server server;
  net::io_context io;
  const redis::semaphore_options o{.permits = 1, .lease = 300ms};
  member a{io, server.url(), o};
  member b{io, server.url(), o};
  auto p = run(io, a.slots.acquire(0));
  waiting w{b.slots, {}};
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 1; });
  SECTION("FLUSHALL") { run(io, a.client.run("FLUSHALL")); }
  SECTION("kill -9 and a start without a file") { server.restart(); }
  run_for(io, 700ms);
  CHECK_FALSE(w.ended());
  CHECK(p.release());
  run_until(io, [&] { return w.ended(); });
  CHECK(w.p.held() == 1);
}

TEST_CASE("a grant that arrives after Redis has forgotten it lets nobody in [realtime]", "[realtime]") {
  redis_server server;
  net::io_context io;
  const redis::semaphore_options o{.permits = 1, .lease = 300ms};
  proxy slow{io, server.folder() / "proxy.sock", server.path()};
  member a{io, server.url(), o};
  member b{io, slow.url(), o};
  member c{io, server.url(), o};
  auto p = run(io, a.slots.acquire(0));
  waiting w{b.slots, {}};
  run_until(io, [&] { return slow.said().find("SUBSCRIBE") != std::string::npos && slow.connections() == 2; });
  run_for(io, 20ms);
  slow.hold_published();
  CHECK(p.release());
  run_until(io, [&] { return slow.held_back() > 0; });
  run(io, a.client.run("FLUSHALL"));
  waiting next{c.slots, {}};
  run_until(io, [&] { return next.ended() || w.ended(); });
  slow.let_go();
  run_for(io, 200ms);
  CHECK(w.p.held() + next.p.held() == 1);
  CHECK((w.ended() ? w.p : next.p).release());
  run_until(io, [&] { return next.ended() && w.ended(); });
}
