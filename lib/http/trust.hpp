#pragma once

#include "canigo/http/client.hpp"

#include <curl/curl.h>

#include <string>

namespace canigo::http::detail {

/// Where the certificates are that a client trusts.
///
/// curl reads all of its bundle, a hundred certificates and more, for each new connection, which takes 40 ms of the
/// loop. Out of a folder that has a file for each, by the hash of its name, OpenSSL takes the one that it needs; and a
/// file that is alone curl reads once, and keeps.
struct trust {
  std::string file = {};    // PEM
  std::string folder = {};  // of files that c_rehash has named
  bool is_known = false;    // or it is left to curl
};

/// What is best out of the file and the folder that curl was made with, either of which may be null.
trust trust_in(const char* file, const char* folder);

/// What the options say, or CURL_CA_BUNDLE, or SSL_CERT_FILE, or what curl was made with.
trust trust_of(const client_options& options);

/// Has curl trust those, from libcurl 7.87 on for as long as its multi handle lives.
CURLcode set_trust(CURL* easy, const trust& trusted) noexcept;

/// Has curl read the file now, and not when a connection waits for it. What went wrong is told for the file alone.
///
/// curl reads it once a server has spoken, so for a moment there is one, on a port of the loopback. It answers up to 64
/// processes that connect to it. After more than those, or 5 s, curl is left to read the file when it must.
///
/// Throws std::bad_alloc.
CURLcode read_trust(CURLM* multi, const trust& trusted);

}  // namespace canigo::http::detail
