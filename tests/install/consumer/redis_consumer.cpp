// A program outside of canigo's tree that uses the Redis edge: nothing listens on port 1, and it says so.
#include <canigo/redis/client.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <system_error>

int main() {
  asio::io_context io;
  canigo::redis::client redis{io, "redis://127.0.0.1:1", {.timeout = std::chrono::milliseconds{100}}};
  bool refused = false;
  asio::co_spawn(io, redis.run("PING"), [&](std::exception_ptr error, const canigo::redis::reply&) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const std::system_error& e) {
      std::puts(e.what());
      refused = true;
    }
  });
  io.run();
  return refused ? 0 : 1;
}
