#pragma once

#include "canigo/http/client.hpp"

#include <curl/curl.h>

#include <string>

namespace canigo::http::detail {

/// The place of the certificates that a client trusts.
///
/// curl reads all of its bundle, a hundred certificates and more, for each new connection, which takes 40 ms of the
/// loop. There are two better ways. A folder may have a file for each certificate, named by its hash: OpenSSL reads
/// only the file that it needs. If curl is given a file and no folder, it reads the file once, and keeps it.
struct trust {
  std::string file = {};    // PEM
  std::string folder = {};  // of files that c_rehash has named
  bool is_known = false;    // or it is left to curl
};

/// The better one of the file and the folder that curl was built with. Either may be null.
trust trust_in(const char* file, const char* folder);

/// The file of the options, of CURL_CA_BUNDLE or of SSL_CERT_FILE; else the place that curl was built with.
trust trust_of(const client_options& options);

/// Has curl trust those, from libcurl 7.87 on for as long as its multi handle lives.
CURLcode set_trust(CURL* easy, const trust& trusted) noexcept;

/// Makes curl read the file now, and not when a connection waits for it. Returns an error of the file only.
///
/// curl reads it once a server has spoken, so for a moment there is one, on a port of the loopback. It answers up to 64
/// processes that connect to it. After more than those, or 5 s, curl is left to read the file when it must.
///
/// Throws std::bad_alloc.
CURLcode read_trust(CURLM* multi, const trust& trusted);

}  // namespace canigo::http::detail
