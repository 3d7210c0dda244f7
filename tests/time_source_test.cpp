#include "canigo/time_source.hpp"

#include "catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <filesystem>
#include <iterator>

namespace net = canigo::net;
using namespace std::chrono_literals;

namespace {

std::ptrdiff_t open_files() {
  namespace fs = std::filesystem;
  std::error_code ec;
  const fs::directory_iterator files{"/proc/self/fd", ec};
  return ec ? 0 : std::distance(begin(files), end(files));
}

}  // namespace

TEST_CASE("the reactor, and the price it has for each turn of the loop, comes with the first deadline",
          "[time_source]") {
  const auto before = open_files();
  net::io_context io;
  auto& time = canigo::time_source::of(io.get_executor());
  io.poll();
  CHECK(open_files() == before);
  canigo::deadline d{[](canigo::deadline&, canigo::due) noexcept { std::terminate(); }};
  CHECK(time.arm(d, time.now() + 24h));
  CHECK((before == 0 || open_files() > before));
  CHECK(time.cancel(d));
}

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
