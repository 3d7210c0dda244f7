#include "canigo/redis/wait_group.hpp"

#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <string>

using namespace redis_test;
using namespace std::chrono_literals;

TEST_CASE("a wait group counts by names, and an unknown one is harmless [realtime]", "[realtime]") {
  redis_server server;
  asio::io_context io;
  redis::client client{io, server.url()};
  redis::semaphore slots{client, "work", {.permits = 2, .lease = 1min, .quarantine = false}};
  redis::wait_group group{slots};
  const std::string a = run(io, group.add());
  const std::string b = run(io, group.add());
  CHECK(a != b);
  CHECK(group.count() == 2);
  CHECK_FALSE(group.done("12345"));
  CHECK_FALSE(group.done(""));
  CHECK(group.count() == 2);
  CHECK(group.done(a));
  CHECK_FALSE(group.done(a));
  const std::string c = run(io, group.add());
  CHECK(c != a);
  CHECK(group.count() == 2);
  CHECK(slots.stats().held == 2);
  CHECK(group.done(b));
  CHECK(group.done(c));
  CHECK(slots.stats().held == 0);
}
