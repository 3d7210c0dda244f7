#include "stream.hpp"

#include "canigo/timeout.hpp"

#include <asio/error.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <cerrno>
#include <chrono>
#include <exception>
#include <sys/socket.h>
#include <system_error>
#include <utility>

namespace canigo::redis::detail {

bool stream::is_open(int socket, bool may_have_data) noexcept {
  char byte = 0;
  const auto n = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n < 0 ? errno == EAGAIN : n > 0 && may_have_data;
}

namespace {

/// The time limit of one attempt to connect. The kernel repeats an unanswered connect after 1 s, and then after ever
/// longer pauses. The limit allows only the first repetition, so a new attempt soon finds a server that has come back.
constexpr duration longest_connect = std::chrono::milliseconds{1500};

/// A stream over TCP without TLS, or over a Unix domain socket.
class plain_stream final : public stream {
 public:
  using socket_type = net::generic::stream_protocol::socket;
  explicit plain_stream(socket_type s) : socket_{std::move(s)} {}

  net::awaitable<std::size_t> read_some(net::mutable_buffer b) override {
    return socket_.async_read_some(b, net::use_awaitable);
  }
  net::awaitable<std::size_t> write_all(net::const_buffer b) override {
    return net::async_write(socket_, b, net::use_awaitable);
  }
  void read_some(net::mutable_buffer b, on_read f) override { socket_.async_read_some(b, std::move(f)); }
  void write_all(net::const_buffer b, on_written f) override { net::async_write(socket_, b, std::move(f)); }
  void close() noexcept override {
    std::error_code ignored;
    socket_.close(ignored);
  }
  // Whether the connection is open, and the server has sent nothing. Call it only while the client expects no reply:
  // then any byte from the server is an error.
  bool is_open() noexcept override { return stream::is_open(socket_.native_handle(), false); }

 private:
  socket_type socket_;
};

net::awaitable<net::ip::tcp::socket> connect_tcp(endpoint::address a) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  net::ip::tcp::resolver resolver{executor};
  // A numeric address needs no look-up, so Asio needs no thread for the resolver.
  const auto in_numbers = net::ip::resolver_base::numeric_host | net::ip::resolver_base::numeric_service;
  std::error_code is_a_name;
  auto found = resolver.resolve(a.host, a.port, in_numbers, is_a_name);
  if (is_a_name) found = co_await resolver.async_resolve(a.host, a.port, net::use_awaitable);
  std::exception_ptr last;
  for (const auto& entry : found) {
    net::ip::tcp::socket socket{executor};
    try {
      auto connected = socket.async_connect(entry.endpoint(), net::use_awaitable);
      co_await with_timeout(std::move(connected), longest_connect);
    } catch (const std::system_error& e) {
      if (e.code() == net::error::operation_aborted) throw;
      last = std::current_exception();
      continue;
    }
    socket.set_option(net::ip::tcp::no_delay{true});
    // With keep-alive probes, the kernel detects a vanished peer even if nothing is sent.
    socket.set_option(net::socket_base::keep_alive{true});
    co_return socket;
  }
  if (last) std::rethrow_exception(last);
  throw std::system_error{make_error_code(net::error::host_not_found)};
}

net::awaitable<std::unique_ptr<stream>> connect_unix(std::string path) {
  net::local::stream_protocol::socket socket{co_await net::this_coro::executor};
  const net::local::stream_protocol::endpoint target{path};
  co_await socket.async_connect(target, net::use_awaitable);
  co_return std::make_unique<plain_stream>(std::move(socket));
}

}  // namespace

net::awaitable<std::unique_ptr<stream>> open_stream(const endpoint& e, endpoint::address a, const tls_settings& tls) {
  if (!e.path.empty()) co_return co_await connect_unix(e.path);
  auto socket = co_await connect_tcp(a);
  if (e.tls) co_return co_await open_tls(std::move(socket), a.host, tls);
  co_return std::make_unique<plain_stream>(std::move(socket));
}

}  // namespace canigo::redis::detail
