#include "canigo/redis/client.hpp"

#include "catch.hpp"
#include "redis_run.hpp"
#include "redis_server.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>

using namespace redis_test;
using namespace std::chrono_literals;
namespace redis = canigo::redis;

namespace {

/// A key and a certificate for it, signed by itself, that names localhost.
void make_certificate(const std::string& key_file, const std::string& certificate_file) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key{EVP_EC_gen("P-256"), &EVP_PKEY_free};
  const std::unique_ptr<X509, decltype(&X509_free)> c{X509_new(), &X509_free};
  X509_set_version(c.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(c.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(c.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(c.get()), 3600);
  X509_set_pubkey(c.get(), key.get());
  X509_NAME* name = X509_get_subject_name(c.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(c.get(), name);
  X509_EXTENSION* names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
  X509_add_ext(c.get(), names, -1);
  X509_EXTENSION_free(names);
  X509_sign(c.get(), key.get(), EVP_sha256());
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> k{std::fopen(key_file.c_str(), "w"), &std::fclose};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> f{std::fopen(certificate_file.c_str(), "w"), &std::fclose};
  REQUIRE(PEM_write_PrivateKey(k.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  REQUIRE(PEM_write_X509(f.get(), c.get()) == 1);
}

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
