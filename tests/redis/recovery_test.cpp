// What Redis has forgotten, or a message that comes too late, leaves nobody waiting and lets nobody in too many.
#include "canigo/error.hpp"
#include "canigo/redis/semaphore.hpp"

#include "redis/member.hpp"
#include "redis/proxy.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <string>

using namespace redis_test;
using namespace std::chrono_literals;

TEST_CASE("D4 one who waited when Redis forgot the queue is served none the less [realtime]", "[realtime]") {
  auto [server, io, a, b] = two_members<>{{.permits = 1, .lease = 1500ms}};
  auto p = run(io, a.slots.acquire());
  waiting w{b.slots, {}};
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 1; });
  SECTION("FLUSHALL") { run(io, a.client.run("FLUSHALL")); }
  SECTION("kill -9 and a start without a file") { server.restart(); }
  run_for(io, 2s);
  CHECK_FALSE(w.ended());
  CHECK(p.release());
  run_until(io, [&] { return w.ended(); });
  CHECK(w.p.held() == 1);
}

TEST_CASE("what Redis has forgotten that it was told it is told again [realtime]", "[realtime]") {
  auto [server, io, a, b] = two_members<>{{.permits = 1, .lease = 60s, .quarantine = false}};
  redis::client admin{io, server.url()};
  // As on a replica that was behind when it took over, or after a crash: what was, with the sessions that go on.
  const auto copy = [&](const std::string& from, const std::string& to) {
    for (const std::string key : {"state", "sess", "q"}) {
      run(io, admin.run("COPY", "{canigo:default:crm}:" + from + key, "{canigo:default:crm}:" + to + key, "REPLACE"));
    }
  };
  auto p = run(io, a.slots.acquire());
  waiting gone{b.slots, {}};
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 1; });
  SECTION("that one does not wait any more") {
    copy("s:", "saved:");
    gone.cancel.emit(net::cancellation_type::total);
    run_until(io, [&] { return gone.ended(); });
  }
  SECTION("that one was let in, and has gone") {
    p.release();
    run_until(io, [&] { return gone.ended() && a.slots.stats().held_by_all == 1; });
    copy("s:", "saved:");
    gone.p.release();
    p = run(io, a.slots.acquire());
  }
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 0 && b.slots.stats().held == 0; });
  copy("saved:", "s:");
  waiting next{b.slots, {}};
  p.release();
  run_until(io, [&] { return next.ended(); });
  CHECK(next.p.held() == 1);
}

TEST_CASE("a grant that arrives after Redis has forgotten it lets nobody in [realtime]", "[realtime]") {
  redis_server server;
  net::io_context io;
  const redis::semaphore_options o{.permits = 1, .lease = 300ms};
  proxy slow{io, server.folder() / "proxy.sock", server.path()};
  member a{io, server.url(), o};
  member b{io, slow.url(), o};
  member c{io, server.url(), o};
  auto p = run(io, a.slots.acquire());
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
