#include "canigo/testing/virtual_time.hpp"

#include "canigo/timeout.hpp"

#include "catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

namespace net = canigo::net;
using namespace std::chrono_literals;

TEST_CASE("an hour of virtual time passes at once and exactly", "[virtual_time]") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::duration woke{};
  net::co_spawn(io, canigo::sleep_for(1h), [&](std::exception_ptr) { woke = time.elapsed(); });
  time.run_for(1h - 1ns);
  CHECK(woke == 0ns);
  time.run();
  CHECK(woke == 1h);
}
