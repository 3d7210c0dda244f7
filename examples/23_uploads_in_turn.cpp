// Two uploads share one uplink of 400 kB per second. The photo begins last but ends first, because it is more
// important; the backup gets the remaining capacity.
#include <canigo/metered_stream.hpp>
#include <canigo/scheduler.hpp>

#include <asio.hpp>
#include <fmt/core.h>

#include <string>

using asio::ip::tcp;

asio::awaitable<void> upload(tcp::endpoint server, canigo::scheduler& uplink, const char* name, int priority,
                             std::size_t bytes) {
  tcp::socket socket{co_await asio::this_coro::executor};
  co_await socket.async_connect(server, asio::use_awaitable);
  canigo::metered_stream<tcp::socket> metered{std::move(socket),
                                              {.write = {&uplink, {.priority = priority}}, .chunk = 4'096}};
  const std::string file(bytes, 'x');
  co_await asio::async_write(metered, asio::buffer(file), asio::use_awaitable);
  fmt::print("{}: {} bytes\n", name, bytes);
}

asio::awaitable<void> swallow(tcp::socket socket) {
  std::string some(65'536, ' ');
  // Ends when the sender closes the stream, because a read then throws.
  for (;;) co_await socket.async_read_some(asio::buffer(some), asio::use_awaitable);
}

asio::awaitable<void> listen(tcp::acceptor& acceptor) {
  for (int i = 0; i < 2; ++i) {
    tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
    asio::co_spawn(acceptor.get_executor(), swallow(std::move(socket)), asio::detached);
  }
}

int main() {
  asio::io_context io;
  tcp::acceptor acceptor{io, {asio::ip::address_v4::loopback(), 0}};
  canigo::scheduler uplink{io, {.rate = canigo::rate::per_second(400'000), .burst = 8'192, .priorities = 2}};
  asio::co_spawn(io, listen(acceptor), asio::detached);
  asio::co_spawn(io, upload(acceptor.local_endpoint(), uplink, "backup", 1, 100'000), asio::detached);
  asio::co_spawn(io, upload(acceptor.local_endpoint(), uplink, "photo", 0, 20'000), asio::detached);
  io.run();
}
