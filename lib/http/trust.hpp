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
  std::string folder = {};  // a folder of files that c_rehash has named
  std::string data = {};    // certificates as PEM text, instead of a file and a folder
  bool is_known = false;    // false: the choice is left to curl
};

/// The better one of the file and the folder that curl was built with. `file` and `folder` may be null.
trust trust_in(const char* file, const char* folder);

/// The text or the file of the options. Without them: the file of CURL_CA_BUNDLE or SSL_CERT_FILE, or else the place
/// that curl was built with.
trust trust_of(const client_options& options);

/// Has curl trust `trusted`, which must stay. From libcurl 7.87 on curl reads a file once for each multi handle.
CURLcode set_trust(CURL* easy, const trust& trusted) noexcept;

/// The certificate that the client shows to servers, if it has one.
CURLcode set_identity(CURL* easy, const client_options& options) noexcept;

/// Throws errc::invalid_argument if the file of that certificate has no certificate, or the file of its key no key.
void check_identity_files(const client_options& options);

/// Makes curl read the certificates now, and not when a connection waits for them. Returns their errors only.
///
/// curl reads them once a server has spoken. So this function opens a server for a moment, on a port of the loopback.
/// The server answers up to 64 processes that connect to it. After more than those, or 5 s, curl reads them when it
/// must.
///
/// Throws std::bad_alloc.
CURLcode read_certificates(CURLM* multi, const trust& trusted, const client_options& options);

}  // namespace canigo::http::detail
