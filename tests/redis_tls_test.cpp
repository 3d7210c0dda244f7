#include "canigo/redis/client.hpp"

#include "catch.hpp"
#include "certificate.hpp"
#include "redis_run.hpp"
#include "redis_server.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <chrono>
#include <string>
#include <system_error>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

std::string free_port() {
  asio::io_context io;
  const asio::ip::tcp::acceptor a{io, {asio::ip::make_address("127.0.0.1"), 0}};
  return std::to_string(a.local_endpoint().port());
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
  CHECK_FALSE(ask("127.0.0.1", {.timeout = 20s, .verify_tls = false}));
}
