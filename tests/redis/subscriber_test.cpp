// How the second connection of a client ends: with a context that goes before the client's last turn, and where nobody
// wants it any more.
#include "canigo/redis/client.hpp"

#include "redis/listener.hpp"
#include "redis/member.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/local/stream_protocol.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

using namespace redis_test;
using namespace std::chrono_literals;

TEST_CASE("a subscription goes with its context, also where its client has no connection") {
  redis_server server;
  std::weak_ptr<redis::detail::subscriber> left;
  const auto heard = std::make_shared<listener>();
  {
    net::io_context io;
    redis::client other{io, server.url()};
    redis::client client{io, server.url()};
    left = redis::detail::engine_of(client).subscriptions();
    left.lock()->add("news", heard);
    run_until(io, [&] { return heard->times == 1; });
    // Its own connection goes, which nobody needs again.
    std::error_code ec;
    client.async_run(redis::command{"BLPOP", "nothing", 0}, [&](std::error_code e, const redis::reply&) { ec = e; });
    run_until(io, [&] { return client.stats().in_flight == 1; });
    run(io, other.run("CLIENT", "KILL", "TYPE", "normal"));
    run_until(io, [&] { return ec == redis::error::connection_lost; });
    CHECK(client.stats().connects == 1);
    CHECK(heard->times == 1);
  }
  CHECK(left.expired());
}

TEST_CASE("a second connection that can't be made, and that nobody wants any more, keeps no loop running") {
  const temporary_folder folder;
  const std::string path = folder / "late.sock";
  net::io_context io;
  const auto delay = canigo::backoff::constant(10min);
  redis::client client{io, "unix:" + path, {.reconnect = delay}};
  const auto s = redis::detail::engine_of(client).subscriptions();
  const auto heard = std::make_shared<listener>();
  s->add("news", heard);
  io.run_for(50ms);
  CHECK_FALSE(io.stopped());
  s->remove("news");
  // It is wanted again, and could be made now, but the delay stands.
  s->add("news", heard);
  bool was_made = false;
  net::local::stream_protocol::acceptor late{io, path};
  late.async_accept([&](std::error_code ec, const net::local::stream_protocol::socket&) { was_made = !ec; });
  io.run_for(100ms);
  CHECK_FALSE(was_made);
  late.close();
  io.poll();
  CHECK_FALSE(io.stopped());
  s->remove("news");
  io.run_for(60s);
  CHECK(io.stopped());
}

TEST_CASE("whether the second connection still says something is asked once, and of a channel that is listened to") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  const auto s = redis::detail::engine_of(client).subscriptions();
  const auto heard = std::make_shared<listener>();
  s->add("news", heard);
  run_until(io, [&] { return heard->times == 1; });
  s->check("olds");
  s->check("news");
  s->check("news");
  s->add("more", heard);
  run_until(io, [&] { return heard->times == 3; });
  CHECK(run(io, client.run("PUBSUB", "NUMSUB", "olds")).elements().at(1).integer() == 0);
  run_for(io, 1ms);
  CHECK(heard->times == 3);
}

TEST_CASE("a second connection that answers in time is kept, also where that is seen late [realtime]", "[realtime]") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url(), {.connect_timeout = 200ms}};
  const auto s = redis::detail::engine_of(client).subscriptions();
  const auto heard = std::make_shared<listener>();
  s->add("news", heard);
  run_until(io, [&] { return heard->times == 1; });
  server.pause();
  s->check("news");
  io.restart();
  io.poll();
  server.resume();
  // The answer is there, and the time is up, when the loop goes on.
  const auto late = steady::now() + 250ms;
  while (steady::now() < late) std::this_thread::yield();
  run_until(io, [&] { return heard->times == 2; });
  run_for(io, 50ms);
  CHECK(heard->times == 2);
}
