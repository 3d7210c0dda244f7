#pragma once

#include "support/catch.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

/// Writes a key, encrypted if there is a password, and a self-signed certificate for localhost. The certificate expires
/// after `ends_in` seconds.
inline void make_certificate(const std::string& key_file, const std::string& certificate_file, long ends_in = 3600,
                             const char* password = nullptr) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key{EVP_EC_gen("P-256"), &EVP_PKEY_free};
  const std::unique_ptr<X509, decltype(&X509_free)> c{X509_new(), &X509_free};
  X509_set_version(c.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(c.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(c.get()), -7200);
  X509_gmtime_adj(X509_getm_notAfter(c.get()), ends_in);
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
  const EVP_CIPHER* cipher = password != nullptr ? EVP_aes_128_cbc() : nullptr;
  REQUIRE(PEM_write_PrivateKey(k.get(), key.get(), cipher, nullptr, 0, nullptr, const_cast<char*>(password)) == 1);
  REQUIRE(PEM_write_X509(f.get(), c.get()) == 1);
}
