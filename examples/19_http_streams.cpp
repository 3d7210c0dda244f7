// Bodies that do not fit into memory, and an endless stream of events. A server can send only as fast as the client
// reads. After its server breaks off a stream, the client connects again.
#include <canigo/http/client.hpp>
#include <canigo/http/event_stream.hpp>
#include <canigo/http/exchange.hpp>
#include <canigo/http/upload.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/read_until.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http = canigo::http;
using namespace std::chrono_literals;

constexpr std::size_t MiB = 1 << 20;

// Plays the role of a server of another company.
class server {
 public:
  explicit server(asio::io_context& io) : io_{io}, acceptor_{io, {asio::ip::make_address("127.0.0.1"), 0}} {
    asio::co_spawn(io_, accept(), asio::detached);
  }
  std::string url(std::string_view path) const {
    return fmt::format("http://127.0.0.1:{}{}", acceptor_.local_endpoint().port(), path);
  }
  std::size_t sent() const { return sent_; }
  std::size_t received() const { return received_; }

 private:
  asio::awaitable<void> accept() {
    for (;;) {
      asio::ip::tcp::socket s = co_await acceptor_.async_accept(asio::use_awaitable);
      asio::co_spawn(io_, serve(std::move(s)), asio::detached);
    }
  }
  asio::awaitable<void> serve(asio::ip::tcp::socket s) {
    std::string text;
    const std::size_t size =
        co_await asio::async_read_until(s, asio::dynamic_buffer(text), "\r\n\r\n", asio::use_awaitable);
    const std::string head = text.substr(0, size);
    if (head.starts_with("GET /file")) co_await send_file(s);
    if (head.starts_with("PUT /log")) co_await take_log(s, text.substr(size));
    if (head.starts_with("GET /news"))
      co_await send_news(s, head.find("Last-Event-ID: 2") == std::string::npos ? 1 : 3);
  }

  asio::awaitable<void> send_file(asio::ip::tcp::socket& s) {
    const std::string head = fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 64 * MiB);
    co_await asio::async_write(s, asio::buffer(head), asio::use_awaitable);
    const std::string part(64 << 10, 'x');
    for (; sent_ < 64 * MiB; sent_ += part.size())
      co_await asio::async_write(s, asio::buffer(part), asio::use_awaitable);
  }

  asio::awaitable<void> take_log(asio::ip::tcp::socket& s, std::string text) {
    while (!text.ends_with("\r\n0\r\n\r\n")) {
      char part[4096];
      const std::size_t n = co_await s.async_read_some(asio::buffer(part), asio::use_awaitable);
      received_ += n;
      text = (text + std::string{part, n}).substr(std::max(text.size() + n, std::size_t{7}) - 7);
    }
    const std::string answer = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
    co_await asio::async_write(s, asio::buffer(answer), asio::use_awaitable);
  }

  // Sends two events, and then closes the connection.
  asio::awaitable<void> send_news(asio::ip::tcp::socket& s, int first) {
    const std::string events = fmt::format(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        "40\r\nretry: 20\n\nid: {0}\ndata: news {0}\n\nid: {1}\ndata: news {1}\n\n: {2:10}\n\r\n",
        first, first + 1, "");
    co_await asio::async_write(s, asio::buffer(events), asio::use_awaitable);
  }

  asio::io_context& io_;
  asio::ip::tcp::acceptor acceptor_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
};

asio::awaitable<void> read_file(http::client& client, server& s) {
  http::exchange x = co_await client.open(s.url("/file"));  // returns when the head has arrived
  std::vector<char> room(64 << 10);
  std::size_t size = co_await x.read_some(asio::buffer(room));
  // The client does not read for a while. The server fills the buffers of the system, and then has to wait.
  std::size_t before = 0;
  while (before != s.sent()) {
    before = s.sent();
    co_await canigo::sleep_for(200ms);
  }
  fmt::print("nobody reads: the server has sent {} than half of 64 MiB, and waits\n",
             before < 32 * MiB ? "less" : "more");
  while (const std::size_t n = co_await x.read_some(asio::buffer(room))) size += n;
  fmt::print("read to the end: {} MiB\n", size / MiB);
}

asio::awaitable<void> write_log(http::client& client, server& s) {
  http::upload u = client.start_upload({"PUT", s.url("/log")});  // the length is unknown, so the body is sent in chunks
  for (int i = 0; i < 1000; ++i) {
    const std::string line = fmt::format("{:1023}\n", i);
    const bool is_wanted = co_await u.write(asio::buffer(line));
    if (!is_wanted) break;  // the server has already answered
  }
  const http::exchange answer = co_await u.finish();
  fmt::print("log: status {}, and the server has {} than 1000 KiB\n", answer.head().status,
             s.received() > 900'000 ? "not much less" : "much less");
}

asio::awaitable<void> read_news(http::client& client, server& s) {
  std::string last_id;
  for (int seen = 0; seen < 4;) {
    http::request r{s.url("/news")};
    r.with_header("Accept", "text/event-stream").with_header("Last-Event-ID", last_id);
    http::event_stream events{co_await client.open(std::move(r))};
    try {
      while (const auto event = co_await events.next()) {
        fmt::print("event {}: {}\n", event->id, event->data);
        ++seen;
      }
    } catch (const std::system_error& e) {
      fmt::print("broken: {}\n", e.code().message());
    }
    last_id = events.last_event_id();
    co_await canigo::sleep_for(events.retry().value_or(1s));
  }
}

int main() {
  std::signal(SIGPIPE, SIG_IGN);
  asio::io_context io;
  server s{io};
  http::client client{io, {.proxy = ""}};
  const auto all = [&]() -> asio::awaitable<void> {
    co_await read_file(client, s);
    co_await write_log(client, s);
    co_await read_news(client, s);
  };
  asio::co_spawn(io, all(), [&](std::exception_ptr error) {
    io.stop();
    if (error) std::rethrow_exception(error);
  });
  io.run();
}
