#pragma once

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read_until.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <linux/sockios.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace http_test {

/// The server's side of one connection to a scripted_server.
class peer {
 public:
  peer(asio::ip::tcp::socket s, unsigned n) : socket{std::move(s)}, number{n} {}

  asio::ip::tcp::socket socket;
  const unsigned number;  ///< the number of the connection; 1 for the first one

  /// Reads the next request, with its body. Throws asio::error::eof when there is none.
  asio::awaitable<std::string> request() {
    const std::size_t head =
        co_await asio::async_read_until(socket, asio::dynamic_buffer(buffer_), "\r\n\r\n", asio::use_awaitable);
    const std::size_t whole = head + body_size(std::string_view{buffer_}.substr(0, head));
    while (buffer_.size() < whole) {
      char part[4096];
      const std::size_t n = co_await socket.async_read_some(asio::buffer(part), asio::use_awaitable);
      buffer_.append(part, n);
    }
    std::string text = buffer_.substr(0, whole);
    buffer_.erase(0, whole);
    co_return text;
  }

  /// Reads the next bytes up to and including this mark.
  asio::awaitable<std::string> up_to(std::string_view mark) {
    const std::size_t size =
        co_await asio::async_read_until(socket, asio::dynamic_buffer(buffer_), std::string{mark}, asio::use_awaitable);
    std::string text = buffer_.substr(0, size);
    buffer_.erase(0, size);
    co_return text;
  }

  asio::awaitable<void> send(std::string_view text) {
    co_await asio::async_write(socket, asio::buffer(text.data(), text.size()), asio::use_awaitable);
  }

  /// Sends a text, and waits until the client can read it.
  asio::awaitable<void> deliver(std::string_view text) {
    co_await send(text);
    for (int unacknowledged = 1; unacknowledged != 0;) {
      co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
      if (::ioctl(socket.native_handle(), SIOCOUTQ, &unacknowledged) != 0) co_return;
    }
  }

  /// Closes the connection with a reset. The destructor of a socket closes without one, even with the linger option.
  void reset() {
    socket.set_option(asio::socket_base::linger{true, 0});
    socket.close();
  }

  /// Waits until the client closes.
  asio::awaitable<void> linger() {
    char part[256];
    for (;;) co_await socket.async_read_some(asio::buffer(part), asio::use_awaitable);
  }

 private:
  static std::size_t body_size(std::string_view head) {
    constexpr std::string_view name = "Content-Length: ";
    const auto at = head.find(name);
    return at == std::string_view::npos ? 0 : std::stoul(std::string{head.substr(at + name.size(), 20)});
  }

  std::string buffer_;
};

/// A server on the loopback that runs a test's script on its own thread.
class scripted_server {
 public:
  using script = std::function<asio::awaitable<void>(peer&)>;

  explicit scripted_server(script s)
      : script_{std::move(s)},
        acceptor_{io_, {asio::ip::make_address("127.0.0.1"), 0}},
        port_{acceptor_.local_endpoint().port()} {
    acceptor_.listen(4096);
    asio::co_spawn(io_, accept(), asio::detached);
    thread_ = std::thread{[this] { io_.run(); }};
  }
  ~scripted_server() {
    io_.stop();
    thread_.join();
  }

  std::string url(std::string_view path = "/") const {
    return "http://127.0.0.1:" + std::to_string(port_).append(path);
  }
  unsigned short port() const { return port_; }
  unsigned connections() const { return connections_; }
  /// The max number of connections that were open at the same time.
  unsigned peak() const { return peak_; }
  unsigned open() const { return open_; }

 private:
  asio::awaitable<void> accept() {
    for (;;) {
      auto socket = co_await acceptor_.async_accept(asio::use_awaitable);
      asio::co_spawn(io_, serve(std::move(socket), ++connections_), asio::detached);
    }
  }

  asio::awaitable<void> serve(asio::ip::tcp::socket socket, unsigned number) {
    peer p{std::move(socket), number};
    if (++open_ > peak_) peak_ = open_.load();
    try {
      co_await script_(p);
    } catch (const std::system_error&) {
      // The client has closed the connection, which is how most tests end.
    }
    --open_;
  }

  script script_;
  asio::io_context io_{1};
  asio::ip::tcp::acceptor acceptor_;
  const unsigned short port_;
  std::atomic<unsigned> connections_{0};
  std::atomic<unsigned> open_{0};
  std::atomic<unsigned> peak_{0};
  std::thread thread_;
};

/// A port whose connection queue is full, so that connecting to it takes for ever.
class full_port {
 public:
  explicit full_port(const char* address = "127.0.0.1", unsigned short port = 0)
      : acceptor_{io_}, at_{asio::ip::make_address(address), port} {
    acceptor_.open(asio::ip::tcp::v4());
    acceptor_.bind(at_);
    acceptor_.listen(0);
    at_ = acceptor_.local_endpoint();
    for (int i = 0; i < 8; ++i) {
      auto& filler = fillers_.emplace_back(io_, asio::ip::tcp::v4());
      filler.native_non_blocking(true);
      ::connect(filler.native_handle(), at_.data(), static_cast<socklen_t>(at_.size()));
    }
  }
  std::string url() const { return "http://" + at_.address().to_string() + ":" + std::to_string(at_.port()) + "/"; }

 private:
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  asio::ip::tcp::endpoint at_;
  std::vector<asio::ip::tcp::socket> fillers_;
};

/// Returns a script that answers every request with the same text.
inline scripted_server::script answer(std::string text) {
  return [text = std::move(text)](peer& p) -> asio::awaitable<void> {
    for (;;) {
      co_await p.request();
      co_await p.send(text);
    }
  };
}

/// Builds a response with status 200, a body and its length.
inline std::string ok(std::string_view body, std::string_view more_headers = "") {
  std::string text{"HTTP/1.1 200 OK\r\nContent-Length: "};
  text.append(std::to_string(body.size())).append("\r\n").append(more_headers).append("\r\n").append(body);
  return text;
}

/// Returns a script that reads a request, and never answers it.
inline scripted_server::script silence() {
  return [](peer& p) -> asio::awaitable<void> {
    co_await p.request();
    co_await p.linger();
  };
}

}  // namespace http_test
