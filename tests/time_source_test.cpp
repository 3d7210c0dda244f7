#include "canigo/time_source.hpp"

#include "catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

namespace net = canigo::net;
using namespace std::chrono_literals;

TEST_CASE("a cancelled deadline is not called and leaves nothing armed", "[time_source]") {
  net::io_context io;
  auto& time = canigo::time_source::of(io.get_executor());
  canigo::deadline d{[](canigo::deadline&, canigo::due) noexcept { std::terminate(); }};
  CHECK(time.idle());
  CHECK(time.arm(d, time.now() + 24h));
  CHECK_FALSE(time.idle());
  CHECK(time.cancel(d));
  CHECK_FALSE(time.cancel(d));
  CHECK(time.idle());
  io.run();  // returns: no timer keeps it
}
