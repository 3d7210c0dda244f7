#include "canigo/timeout.hpp"

#include "canigo/testing/virtual_time.hpp"

#include "catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <system_error>

namespace net = canigo::net;
using namespace std::chrono_literals;

TEST_CASE("an operation over its time is cancelled and ends with timed_out", "[timeout]") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  std::error_code error;
  net::co_spawn(io, canigo::with_timeout(canigo::sleep_for(1h), 2s), [&](std::exception_ptr e) {
    try {
      std::rethrow_exception(e);
    } catch (const std::system_error& s) {
      error = s.code();
    }
  });
  time.run();
  CHECK(error == canigo::errc::timed_out);
  CHECK(time.elapsed() == 2s);
}
