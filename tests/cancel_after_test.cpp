#include "canigo/cancel_after.hpp"

#include "canigo/testing/virtual_time.hpp"

#include "catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/bind_executor.hpp>
#include <asio/steady_timer.hpp>

namespace net = canigo::net;
using namespace std::chrono_literals;

TEST_CASE("an Asio operation over its limit ends with timed_out", "[cancel_after]") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  net::steady_timer timer{io, 24h};
  std::error_code error;
  timer.async_wait(canigo::cancel_after(2s, net::bind_executor(io, [&](std::error_code e) { error = e; })));
  time.run();
  CHECK(error == canigo::errc::timed_out);
}
