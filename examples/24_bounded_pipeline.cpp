// Two pipelines in bounded memory: their channels share 1000 bytes. The disk is slow, and its producer fills the shared
// memory immediately. But 300 bytes are reserved for the network channel, so the network continues. An alarm for the
// disk overtakes chunks that entered the channel earlier. Time is virtual (see 02_priorities.cpp), so the figures are
// exact.
#include <canigo/channel.hpp>
#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

using namespace std::chrono_literals;

struct chunk {
  std::string name;
  std::string bytes;
};

std::uint64_t size_of(const chunk& c) { return c.bytes.size(); }

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

asio::awaitable<void> read(canigo::channel<chunk>& to, std::string name, int chunks) {
  for (int i = 1; i <= chunks; ++i) {
    chunk c{name + " " + std::to_string(i), std::string(200, 'x')};
    co_await to.send(std::move(c), 1);  // waits while the channel is full
  }
}

asio::awaitable<void> write(canigo::channel<chunk>& from, canigo::testing::virtual_time& time, canigo::duration each) {
  std::error_code end;
  while (std::optional<chunk> c = co_await from.receive(end)) {  // ends after close(), when no chunk is left
    co_await canigo::sleep_for(each);
    fmt::print("{:4} ms  {}\n", time.elapsed() / 1ms, c->name);
  }
}

int main() {
  asio::io_context io;
  canigo::testing::virtual_time time{io};  // must precede the first canigo object on `io`
  canigo::channel_capacity memory{io, {.bytes = 1'000}};
  canigo::channel<chunk> disk{io, {.size_of = size_of, .shared = memory, .priorities = 2}};
  canigo::channel<chunk> network{io, {.size_of = size_of, .shared = memory, .reserved_bytes = 300, .priorities = 2}};
  asio::co_spawn(io, read(disk, "disk", 6), rethrow);
  asio::co_spawn(io, write(disk, time, 100ms), rethrow);
  asio::co_spawn(io, read(network, "network", 4), rethrow);
  asio::co_spawn(io, write(network, time, 30ms), rethrow);
  time.run_for(50ms);
  fmt::print("{:4} ms  {} bytes in memory, of the disk {}\n", time.elapsed() / 1ms, memory.stats().bytes,
             disk.stats().bytes);
  asio::co_spawn(io, disk.send({"alarm for the disk", ""}, 0), rethrow);
  time.run_for(500ms);
  disk.close();
  network.close();
  time.run();
}
