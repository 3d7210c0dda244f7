// An ordinary Asio line server gets a limit: it answers five lines in two seconds, those of paying customers first. The
// lines marked with (*) are new. The clients below run in the same program, over the loopback, in real time.
#include <canigo/scheduler.hpp>

#include <asio.hpp>
#include <fmt/core.h>

using asio::ip::tcp;
using namespace std::chrono_literals;

asio::awaitable<void> session(tcp::socket socket, canigo::scheduler& quota) {
  std::string line;
  for (;;) {  // ends when the client disconnects, because a read then throws
    auto buffer = asio::dynamic_buffer(line, 4096);
    const auto size = co_await asio::async_read_until(socket, buffer, '\n', asio::use_awaitable);
    co_await quota.acquire(line.starts_with("gold") ? 0 : 1);  // (*)
    co_await asio::async_write(socket, asio::buffer(line, size), asio::use_awaitable);
    line.erase(0, size);
  }
}

void report(std::exception_ptr error) try {  // an error in one session must not end other sessions
  if (error) std::rethrow_exception(error);
} catch (const std::system_error& e) {
  if (e.code() != asio::error::eof) fmt::print(stderr, "{}\n", e.what());
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

asio::awaitable<void> listen(tcp::acceptor& acceptor, canigo::scheduler& quota) {
  for (;;) {
    tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
    asio::co_spawn(acceptor.get_executor(), session(std::move(socket), quota), report);
  }
}

const auto start = std::chrono::steady_clock::now();

asio::awaitable<void> client(tcp::endpoint server, std::string line) {
  tcp::socket socket{co_await asio::this_coro::executor};
  co_await socket.async_connect(server, asio::use_awaitable);
  co_await asio::async_write(socket, asio::buffer(line), asio::use_awaitable);
  co_await asio::async_read(socket, asio::buffer(line), asio::use_awaitable);
  // The time is rounded down to a multiple of 400 ms, the time of one token.
  const auto elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("{:4} ms  {}", elapsed / 400ms * 400, line);
}

int main() {
  asio::io_context io;
  tcp::acceptor acceptor{io, {asio::ip::address_v4::loopback(), 0}};
  canigo::scheduler quota{io, {.rate = {5, 2s}, .priorities = 2}};  // (*)
  asio::co_spawn(io, listen(acceptor, quota), rethrow);

  int answers = 0;
  for (const char* line : {"free\n", "free\n", "gold\n", "free\n", "gold\n"}) {
    asio::co_spawn(io, client(acceptor.local_endpoint(), line), [&](std::exception_ptr error) {
      rethrow(error);
      if (++answers == 5) io.stop();
    });
  }
  io.run();
}
