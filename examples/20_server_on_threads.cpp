// An ordinary line server on two threads. The line marked with (*) uses the executor of work_stealing instead of that
// of the io_context. All sessions share one slot, which passes from thread to thread at each line.
#include <canigo/semaphore.hpp>
#include <canigo/work_stealing.hpp>

#include <asio.hpp>
#include <fmt/core.h>

#include <atomic>
#include <thread>

using asio::ip::tcp;

asio::awaitable<void> session(tcp::socket socket, canigo::semaphore& place, long& lines) {
  std::string line;
  for (;;) {  // ends when the client disconnects, because a read then throws
    const auto size =
        co_await asio::async_read_until(socket, asio::dynamic_buffer(line, 4096), '\n', asio::use_awaitable);
    {
      const canigo::permit alone = co_await place.acquire();
      ++lines;
    }
    co_await asio::async_write(socket, asio::buffer(line, size), asio::use_awaitable);
    line.erase(0, size);
  }
}

void report(std::exception_ptr error) try {  // an error in one session must not end other sessions
  if (error) std::rethrow_exception(error);
} catch (const std::system_error& e) {
  if (e.code() != asio::error::eof) fmt::print(stderr, "{}\n", e.what());
}

asio::awaitable<void> listen(tcp::acceptor& acceptor, canigo::semaphore& place, long& lines) {
  for (;;) {
    tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
    asio::co_spawn(acceptor.get_executor(), session(std::move(socket), place, lines), report);
  }
}

asio::awaitable<void> client(tcp::endpoint server) {
  tcp::socket socket{co_await asio::this_coro::executor};
  co_await socket.async_connect(server, asio::use_awaitable);
  for (int i = 0; i < 100; ++i) {
    std::string line = "hello\n";
    co_await asio::async_write(socket, asio::buffer(line), asio::use_awaitable);
    co_await asio::async_read(socket, asio::buffer(line), asio::use_awaitable);
  }
}

int main() {
  asio::io_context io;
  canigo::work_stealing pool{io};
  const auto executor = pool.get_executor();  // (*) instead of io.get_executor()

  tcp::acceptor acceptor{executor, {asio::ip::address_v4::loopback(), 0}};
  canigo::semaphore place{pool, {.permits = 1}};
  long lines = 0;
  asio::co_spawn(executor, listen(acceptor, place, lines), report);

  std::atomic<int> clients{20};
  for (int i = 0; i < 20; ++i) {
    asio::co_spawn(executor, client(acceptor.local_endpoint()), [&](std::exception_ptr error) {
      report(error);
      if (--clients == 0) io.stop();
    });
  }
  std::thread other{[&] { io.run(); }};
  io.run();
  other.join();
  fmt::print("20 clients, {} lines\n", lines);
}
