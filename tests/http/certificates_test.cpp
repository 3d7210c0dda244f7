#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/net.hpp"

#include "http/certificate.hpp"
#include "http/server.hpp"
#include "http/tls_server.hpp"
#include "support/catch.hpp"
#include "support/said_by.hpp"

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

using namespace http_test;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

std::string text_in(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream{file}.rdbuf();
  return text.str();
}

struct outcome {
  std::error_code error;
  http::response response;
};

/// The server is in the same loop, which therefore does not end.
outcome send_to_server(net::io_context& io, http::request asked, http::client_options o) {
  if (!o.proxy) o.proxy = "";
  http::client client{io, o};
  std::optional<outcome> end;
  client.async_send(std::move(asked), [&](std::error_code ec, http::response r) { end = outcome{ec, std::move(r)}; });
  while (!end) io.run_one();
  return *std::move(end);
}

outcome ask_server(net::io_context& io, const std::string& url, const http::client_options& o) {
  return send_to_server(io, http::request{url}, o);
}

std::string refusal_of(const http::client_options& o) {
  net::io_context io;
  try {
    const http::client client{io, o};
    return "accepted";
  } catch (const std::system_error& e) {
    CHECK(e.code() == canigo::errc::invalid_argument);
    return said_by(e);
  }
}

}  // namespace

TEST_CASE("trusted certificates may be a text") {
  net::io_context io;
  const tls_server server{io};
  const tls_server other{io};
  const std::string text = text_in(server.certificate());
  CHECK(ask_server(io, server.url(), {.ca_data = text}).response.body == "secret");
  CHECK(ask_server(io, other.url(), {.ca_data = text}).error == http::error::certificate_rejected);
  CHECK(ask_server(io, other.url(), {.ca_data = text + text_in(other.certificate())}).response.body == "secret");
  // A text that is broken in it, and none at all.
  for (const std::string& bad : {text.substr(0, text.size() / 2), std::string{"no certificate"}}) {
    CHECK(refusal_of({.ca_data = bad, .proxy = ""}) == "client_options.ca_data is " + std::to_string(bad.size()) +
                                                           " bytes; allowed: certificates in PEM: invalid argument");
  }
  CHECK(refusal_of({.ca_file = server.certificate(), .ca_data = "abc", .proxy = ""})
            .starts_with("client_options.ca_data is 3 bytes; allowed: none beside ca_file"));
}

TEST_CASE("a server with TLS is offered HTTP/2, unless the client speaks HTTP/1.1 alone") {
  net::io_context io;
  const tls_server server{io};
  CHECK(ask_server(io, server.url(), {.ca_file = server.certificate()}).response.body == "secret");
  CHECK(server.offered() == "\x02h2\x08http/1.1");
  // The answer of a server that ends the stream before it has the body would be lost.
  for (const auto& [body, offered] : {std::pair{"x", "\x08http/1.1"}, std::pair{"", "\x02h2\x08http/1.1"}}) {
    const http::request r = http::request{"POST", server.url()}.with_body(body);
    CHECK(send_to_server(io, r, {.ca_file = server.certificate()}).response.body == "secret");
    CHECK(server.offered() == offered);
  }
  CHECK(ask_server(io, server.url(), {.version = http::http_version::http1, .ca_file = server.certificate()})
            .response.body == "secret");
  CHECK(server.offered() == "\x08http/1.1");
}

TEST_CASE("a client shows its certificate to a server that asks for one") {
  net::io_context io;
  tls_server server{io};
  const temporary_folder folder;
  const std::string cert = folder / "cert", key = folder / "key", both = folder / "both";
  const std::string locked = folder / "locked", its_cert = folder / "its";
  make_certificate(key, cert);
  make_certificate(locked, its_cert, 3600, "open sesame");
  std::ofstream{both} << text_in(cert) << text_in(key);
  server.ask_for_certificate(cert);
  const std::string ca = server.certificate();
  CHECK(ask_server(io, server.url(), {.ca_file = ca, .cert_file = cert, .key_file = key}).response.body == "secret");
  CHECK(ask_server(io, server.url(), {.ca_file = ca, .cert_file = both}).response.body == "secret");
  CHECK(ask_server(io, server.url(), {.verify_tls = false, .cert_file = both}).response.body == "secret");
  CHECK(ask_server(io, server.url(), {.ca_file = ca}).error.category() == http::error_category());
  tls_server strict{io};
  strict.ask_for_certificate(its_cert);
  const http::client_options unlocked{
      .ca_file = strict.certificate(), .cert_file = its_cert, .key_file = locked, .key_password = "open sesame"};
  CHECK(ask_server(io, strict.url(), unlocked).response.body == "secret");
  CHECK(ask_server(io, strict.url(), {.ca_file = strict.certificate(), .cert_file = both}).error);
}

TEST_CASE("a client's certificate or key that can't be used is refused when the client is made") {
  const temporary_folder folder;
  const std::string cert = folder / "cert", key = folder / "key", locked = folder / "locked", other = folder / "other";
  make_certificate(key, cert);
  make_certificate(locked, other, 3600, "open sesame");
  const std::string absent = folder / "none";
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(refusal_of({.cert_file = absent, .proxy = ""}), "allowed: a PEM file with a certificate"));
  CHECK(has(refusal_of({.cert_file = key, .proxy = ""}), "allowed: a PEM file with a certificate"));
  CHECK(has(refusal_of({.cert_file = cert, .proxy = ""}), "client_options.cert_file is " + cert.substr(0, 20)));
  CHECK(has(refusal_of({.cert_file = cert, .proxy = ""}), "a key, too, if key_file is empty"));
  CHECK(has(refusal_of({.cert_file = cert, .key_file = absent, .proxy = ""}), "allowed: a PEM file with a key"));
  CHECK(has(refusal_of({.cert_file = cert, .key_file = cert, .proxy = ""}), "allowed: a PEM file with a key"));
  const std::string fits = "allowed: the key of the first certificate in cert_file, to be read with key_password";
  CHECK(has(refusal_of({.cert_file = other, .key_file = key, .proxy = ""}), fits));
  CHECK(has(refusal_of({.cert_file = other, .key_file = locked, .proxy = ""}), fits));
  const auto wrong = refusal_of({.cert_file = other, .key_file = locked, .key_password = "open barley", .proxy = ""});
  CHECK(has(wrong, fits));
  CHECK_FALSE(has(wrong, "barley"));
  CHECK(has(wrong, "client_options.key_file is "));
  CHECK(refusal_of({.cert_file = cert, .key_file = key, .proxy = ""}) == "accepted");
  CHECK(has(refusal_of({.key_file = key, .proxy = ""}), "allowed: none without cert_file"));
  CHECK(has(refusal_of({.key_password = "open sesame", .proxy = ""}),
            "client_options.key_password is (hidden); allowed: none without cert_file"));
}

TEST_CASE("what is wrong with a certificate, or with TLS, is said in words") {
  net::io_context io;
  const tls_server server{io};
  const tls_server late{io, -60};
  const auto words = [&](const std::string& url, const http::client_options& o) {
    const auto [error, response] = ask_server(io, url, o);
    CHECK(error);
    CHECK(response.problem.find("secret") == std::string::npos);
    return response.problem;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string ca = server.certificate();
  CHECK(has(words(server.url() + "?secret", {}), "self-signed certificate"));
  CHECK(has(words(server.url("127.0.0.1"), {.ca_file = ca}), "127.0.0.1"));
  CHECK(has(words(late.url(), {.ca_file = late.certificate()}), "certificate has expired"));
  scripted_server plain{[](peer& p) -> net::awaitable<void> {
    co_await p.send("HTTP/1.1 400 No\r\n\r\n");
    co_await p.linger();
  }};
  CHECK(has(words("https" + plain.url("/secret").substr(4), {}), "wrong version number"));
  tls_server strict{io};
  strict.ask_for_certificate(ca);
  CHECK(has(words(strict.url(), {.ca_file = strict.certificate()}), "certificate required"));
  CHECK(has(words("http://x.test/", {.proxy = "http://me:secret@proxy.invalid:1"}), "proxy.invalid"));
}

TEST_CASE("a certificate of the client that goes later is an error of its own") {
  net::io_context io;
  const tls_server server{io};
  const temporary_folder folder;
  make_certificate(folder / "key", folder / "cert");
  http::client client{
      io, {.ca_file = server.certificate(), .cert_file = folder / "cert", .key_file = folder / "key", .proxy = ""}};
  std::ofstream{folder / "key"} << "gone\n";
  std::optional<std::error_code> end;
  client.async_send({server.url()}, [&](std::error_code ec, const http::response&) { end = ec; });
  while (!end) io.run_one();
  CHECK(*end == http::error::client_certificate_unusable);
}
