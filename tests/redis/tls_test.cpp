#include "canigo/redis/client.hpp"
#include "canigo/redis/semaphore.hpp"

#include "http/certificate.hpp"
#include "redis/greeting.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read_until.hpp>
#include <asio/ssl/context.hpp>
#include <asio/ssl/stream.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <openssl/ssl.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

std::string free_port() {
  asio::io_context io;
  const asio::ip::tcp::acceptor a{io, {asio::ip::make_address("127.0.0.1"), 0}};
  return std::to_string(a.local_endpoint().port());
}

/// Changes its keys after each answer that is heard, of which it tells the other end, which has asked nothing.
net::awaitable<void> change_keys(net::ip::tcp::acceptor& a, net::ssl::context& tls, bool& is_heard) {
  auto socket = co_await a.async_accept(net::use_awaitable);
  net::ssl::stream<net::ip::tcp::socket> stream{std::move(socket), tls};
  co_await stream.async_handshake(net::ssl::stream_base::server, net::use_awaitable);
  std::string text;
  const auto hear = [&](std::string last) -> net::awaitable<void> {
    const std::size_t n = co_await net::async_read_until(stream, net::dynamic_buffer(text), last, net::use_awaitable);
    text.erase(0, n);
  };
  const auto say = [&](std::string what) -> net::awaitable<void> {
    co_await net::async_write(stream, net::buffer(what), net::use_awaitable);
  };
  co_await hear("server\r\n");
  co_await say(usual_greeting);
  for (;;) {
    co_await hear("go\r\n");
    co_await say("+gone\r\n");
    while (!is_heard) co_await net::post(net::use_awaitable);
    is_heard = false;
    // It is sent when the next command is waited for.
    SSL_key_update(stream.native_handle(), SSL_KEY_UPDATE_NOT_REQUESTED);
  }
}

}  // namespace

TEST_CASE("TLS: the certificate and the host's name are checked") {
  const temporary_folder folder;
  make_certificate(folder / "key", folder / "certificate");
  const std::string port = free_port();
  redis_server server{{"--tls-port", port, "--tls-cert-file", folder / "certificate", "--tls-key-file", folder / "key",
                       "--tls-ca-cert-file", folder / "certificate", "--tls-auth-clients", "no", "--bind",
                       "127.0.0.1"}};
  asio::io_context io;
  const auto ask = [&](const std::string& host, const redis::client_options& o) -> std::error_code {
    redis::client client{io, "rediss://" + host + ":" + port, o};
    try {
      for (int i = 0; i < 3; ++i) {
        const std::string text = run(io, client.run("ECHO", i)).text();
        CHECK(text == std::to_string(i));
      }
      CHECK(client.stats().connects == 1);
    } catch (const std::system_error& e) {
      return e.code();
    }
    return {};
  };
  CHECK_FALSE(ask("localhost", {.timeout = 20s, .ca_file = folder / "certificate"}));
  // Its name is another one; nobody we trust has signed it; and the user said not to look.
  CHECK(std::string{ask("127.0.0.1", {.timeout = 20s, .ca_file = folder / "certificate"}).category().name()} ==
        "asio.ssl");
  CHECK(std::string{ask("localhost", {.timeout = 20s}).category().name()} == "asio.ssl");
  ::setenv("SSL_CERT_FILE", (folder / "certificate").c_str(), 1);  // which OpenSSL reads as the system's
  CHECK_FALSE(ask("localhost", {.timeout = 20s}));
  ::unsetenv("SSL_CERT_FILE");
  CHECK_FALSE(ask("127.0.0.1", {.timeout = 20s, .verify_tls = false}));
}

TEST_CASE("TLS: a client shows its certificate where it has one, and the cause is the certificate where it has none") {
  const temporary_folder folder;
  const std::string certificate = folder / "certificate";
  make_certificate(folder / "key", certificate);
  make_certificate(folder / "other-key", folder / "other");
  make_certificate(folder / "locked-key", folder / "of-locked", 3600, "secret");
  std::ofstream{folder / "both"} << std::ifstream{certificate}.rdbuf() << std::ifstream{folder / "key"}.rdbuf();
  // Over 1.2 the handshake fails, over 1.3 the login.
  const char* protocol = GENERATE("TLSv1.2", "TLSv1.3");
  CAPTURE(protocol);
  const std::string port = free_port();
  // That every client shows a certificate is the default.
  redis_server server{{"--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", folder / "key",
                       "--tls-ca-cert-file", certificate, "--tls-protocols", protocol, "--bind", "127.0.0.1"}};
  net::io_context io;
  const auto ask = [&](const std::string& user, const std::string& cert, const std::string& key = {}) {
    redis::client client{io,
                         "rediss://" + user + "localhost:" + port,
                         {.timeout = 20s, .ca_file = certificate, .cert_file = cert, .key_file = key}};
    std::pair<std::error_code, std::string> end;
    client.async_run(redis::command{"PING"}, [&](std::error_code ec, const redis::reply& r) { end = {ec, r.text()}; });
    io.restart();
    io.run();
    return end;
  };
  CHECK(ask("", certificate, folder / "key").second == "PONG");
  CHECK(ask("", folder / "both").second == "PONG");
  // With a login that is longer than what fits into the connection, the server closes while it is written.
  for (const std::string& user : {std::string{}, ":" + std::string(20 << 20, 'x') + "@"}) {
    const auto [ec, text] = ask(user, "");
    CAPTURE(user.size(), ec, text);
    CHECK(std::string{ec.category().name()} == "asio.ssl");
    CHECK(text.find("; the server asks for a certificate of the client, and client_options.cert_file is empty") !=
          std::string::npos);
  }
  CHECK(std::string{ask("", folder / "other", folder / "other-key").first.category().name()} == "asio.ssl");
  for (const auto& [cert, key, says] :
       {std::array{folder / "none", folder / "key", "client_options.cert_file " + (folder / "none")},
        std::array{certificate, folder / "none", "client_options.key_file " + (folder / "none")},
        std::array{certificate, folder / "other-key", "client_options.key_file " + (folder / "other-key")},
        std::array{folder / "of-locked", folder / "locked-key", "client_options.key_file " + (folder / "locked-key")},
        std::array{certificate, std::string{}, "client_options.cert_file " + certificate}}) {
    const auto [ec, text] = ask("", cert, key);
    CAPTURE(text);
    CHECK(ec == errc::invalid_argument);
    CHECK(text.starts_with(says + ": "));
  }
}

TEST_CASE("TLS: a limit whose server wants a certificate fails at once, and says so") {
  const temporary_folder folder;
  make_certificate(folder / "key", folder / "certificate");
  const std::string port = free_port();
  redis_server server{{"--tls-port", port, "--tls-cert-file", folder / "certificate", "--tls-key-file", folder / "key",
                       "--tls-ca-cert-file", folder / "certificate", "--bind", "127.0.0.1"}};
  net::io_context io;
  redis::client client{io, "rediss://localhost:" + port, {.ca_file = folder / "certificate"}};
  redis::semaphore slots{client, "crm", {.permits = 1, .give_up = canigo::duration::max()}};
  try {
    const auto p = run(io, slots.acquire());
    FAIL("granted");
  } catch (const std::system_error& e) {
    CHECK(std::string{e.code().category().name()} == "asio.ssl");
  }
  CHECK(slots.stats().last_error.find("asks for a certificate of the client") != std::string::npos);
}

TEST_CASE("TLS: a connection on which the server has something to say of the connection itself is kept") {
  const temporary_folder folder;
  make_certificate(folder / "key", folder / "certificate");
  net::io_context io;
  net::ssl::context tls{net::ssl::context::tls_server};
  tls.use_private_key_file(folder / "key", net::ssl::context::pem);
  tls.use_certificate_file(folder / "certificate", net::ssl::context::pem);
  net::ip::tcp::acceptor acceptor{io, {net::ip::make_address("127.0.0.1"), 0}};
  bool is_heard = false;
  net::co_spawn(io, change_keys(acceptor, tls, is_heard), net::detached);
  const std::string port = std::to_string(acceptor.local_endpoint().port());
  redis::client client{io, "rediss://localhost:" + port, {.timeout = 20s, .ca_file = folder / "certificate"}};
  for (int i = 0; i < 3; ++i) {
    CHECK(run(io, client.run("GET", "go")).text() == "gone");
    is_heard = true;
    io.restart();
    while (is_heard) io.run_one();
    io.poll();
  }
  CHECK(client.stats().connects == 1);
  CHECK(client.stats().failures == 0);
}
