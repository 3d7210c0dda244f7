#include "certificate.hpp"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <stdexcept>

namespace conversations {
namespace {

void check(bool is_good) {
  if (!is_good) throw std::runtime_error{"OpenSSL makes no certificate"};
}

void extend(X509* to, int what, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, to, to, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> e{
      X509V3_EXT_conf_nid(nullptr, &context, what, value), &X509_EXTENSION_free};
  check(e != nullptr && X509_add_ext(to, e.get(), -1) == 1);
}

template <class Write>
void write_file(const std::filesystem::path& path, Write write) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  check(file != nullptr);
  const bool is_written = write(file) == 1;
  check(std::fclose(file) == 0 && is_written);
}

}  // namespace

certificate::certificate(const std::filesystem::path& folder)
    : server_{SSL_CTX_new(TLS_server_method())}, client_{SSL_CTX_new(TLS_client_method())} {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key{EVP_EC_gen("P-256"), &EVP_PKEY_free};
  const std::unique_ptr<X509, decltype(&X509_free)> own{X509_new(), &X509_free};
  check(server_ != nullptr && client_ != nullptr && key != nullptr && own != nullptr);
  X509* const x = own.get();
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
  X509_gmtime_adj(X509_getm_notBefore(x), -86400);
  X509_gmtime_adj(X509_getm_notAfter(x), 30L * 86400);
  X509_set_pubkey(x, key.get());
  X509_NAME* const name = X509_get_subject_name(x);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("conversations"), -1, -1,
                             0);
  X509_set_issuer_name(x, name);
  extend(x, NID_basic_constraints, "critical,CA:TRUE");
  extend(x, NID_subject_alt_name, "IP:127.0.0.1");
  check(X509_sign(x, key.get(), EVP_sha256()) > 0);
  write_file(folder / "cert.pem", [&](std::FILE* f) { return PEM_write_X509(f, x); });
  write_file(folder / "key.pem",
             [&](std::FILE* f) { return PEM_write_PrivateKey(f, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  check(SSL_CTX_use_certificate(server_, x) == 1 && SSL_CTX_use_PrivateKey(server_, key.get()) == 1);
  SSL_CTX_set_num_tickets(server_, 0);
}

certificate::~certificate() {
  SSL_CTX_free(server_);
  SSL_CTX_free(client_);
}

}  // namespace conversations
