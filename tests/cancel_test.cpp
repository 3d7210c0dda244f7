#include "canigo/cancel.hpp"

#include "canigo/testing/virtual_time.hpp"
#include "canigo/timeout.hpp"

#include "catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

namespace net = canigo::net;
using namespace std::chrono_literals;

TEST_CASE("a cancelled source ends what it wraps, and starts nothing more", "[cancel]") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::cancel_source stop;
  int failed = 0;
  const auto count = [&](std::exception_ptr e) { failed += e != nullptr; };
  net::co_spawn(io, stop.wrap(canigo::sleep_for(1h)), count);
  time.run_for(1s);
  CHECK(failed == 0);
  stop.cancel();
  CHECK(stop.cancelled());
  net::co_spawn(io, stop.wrap(canigo::sleep_for(1h)), count);
  time.run();
  CHECK(failed == 2);
  CHECK(time.elapsed() == 1s);
}
