#include "canigo/http/client.hpp"
#include "canigo/net.hpp"

#include "catch.hpp"
#include "certificate.hpp"
#include "http_run.hpp"

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/ssl/context.hpp>
#include <asio/ssl/stream.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

using namespace http_test;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

net::awaitable<void> serve(net::ip::tcp::socket socket, net::ssl::context& tls) {
  net::ssl::stream<net::ip::tcp::socket> stream{std::move(socket), tls};
  co_await stream.async_handshake(net::ssl::stream_base::server, net::use_awaitable);
  std::string text;
  for (;;) {
    const std::size_t n =
        co_await net::async_read_until(stream, net::dynamic_buffer(text), "\r\n\r\n", net::use_awaitable);
    text.erase(0, n);
    constexpr std::string_view reply = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
    co_await net::async_write(stream, net::buffer(reply.data(), reply.size()), net::use_awaitable);
  }
}

net::awaitable<void> accept_tls(net::ip::tcp::acceptor& a, net::ssl::context& tls) {
  for (;;) {
    auto socket = co_await a.async_accept(net::use_awaitable);
    net::co_spawn(a.get_executor(), serve(std::move(socket), tls), net::detached);
  }
}

/// A folder for a while.
class temporary_folder {
 public:
  temporary_folder() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  ~temporary_folder() { std::filesystem::remove_all(path_); }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "canigo-XXXXXX").string();
};

/// A server with a certificate of its own, in the loop of who asks it.
class tls_server {
 public:
  explicit tls_server(net::io_context& io, long certificate_ends_in = 3600)
      : acceptor_{io, {net::ip::make_address("127.0.0.1"), 0}} {
    make_certificate(folder_ / "key", certificate(), certificate_ends_in);
    tls_.use_private_key_file(folder_ / "key", net::ssl::context::pem);
    tls_.use_certificate_file(certificate(), net::ssl::context::pem);
    net::co_spawn(io, accept_tls(acceptor_, tls_), net::detached);
  }
  std::string certificate() const { return folder_ / "certificate"; }
  std::string url(const std::string& host = "localhost") const {
    return "https://" + host + ":" + std::to_string(acceptor_.local_endpoint().port()) + "/";
  }

 private:
  temporary_folder folder_;
  net::ssl::context tls_{net::ssl::context::tls_server};
  net::ip::tcp::acceptor acceptor_;
};

}  // namespace

TEST_CASE("HTTPS: the certificate and the host's name are checked, and the connection is kept") {
  net::io_context io;
  const tls_server server{io};
  const auto ask = [&](const std::string& url, http::client_options o) -> std::error_code {
    o.proxy = "";
    o.connections_per_host = 1;
    http::client client{io, o};
    std::error_code error;
    const auto both = [&]() -> net::awaitable<void> {
      for (int i = 0; i < 2; ++i) {
        const http::response r = co_await client.get(url);
        CHECK(r.body == "secret");
        CHECK(r.reused == (i == 1));
        if (i == 0) CHECK(r.timing.secured > r.timing.connected);
      }
    };
    bool ended = false;
    net::co_spawn(io, both(), [&](std::exception_ptr e) {
      ended = true;
      try {
        if (e) std::rethrow_exception(e);
      } catch (const std::system_error& failure) {
        error = failure.code();
      }
    });
    while (!ended) io.run_one();
    return error;
  };
  CHECK_FALSE(ask(server.url(), {.ca_file = server.certificate()}));
  CHECK(ask(server.url("127.0.0.1"), {.ca_file = server.certificate()}) == http::error::certificate_of_another_host);
  CHECK(ask(server.url(), {}) == http::error::certificate_rejected);  // nobody we trust has signed it
  CHECK_FALSE(ask(server.url("127.0.0.1"), {.verify_tls = false}));
  const tls_server late{io, -60};
  CHECK(ask(late.url(), {.ca_file = late.certificate()}) == http::error::certificate_expired);
}
