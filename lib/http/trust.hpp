#pragma once

#include "canigo/http/client.hpp"

#include <curl/curl.h>

#include <string>

namespace canigo::http::detail {

/// The location of the certificates that a client trusts.
///
/// By default, curl reads its bundle of a hundred or more certificates for each new connection, which blocks the loop
/// for 40 ms. There are two ways to avoid that. If the certificates are in a folder, in files named by their hashes,
/// OpenSSL reads only the file that it needs. If curl gets a file and no folder, it reads the file once and keeps the
/// certificates.
struct trust {
  std::string file = {};    // the path of a PEM file with trusted certificates
  std::string folder = {};  // the path of a folder of PEM files, with names that c_rehash has made
  std::string data = {};    // trusted certificates as a PEM text, instead of a file and a folder
  bool is_known = false;    // whether a location is known; false: curl uses its own default
};

/// Returns curl's default file or its default folder as the location of certificates. `file` and `folder` may be null.
trust trust_in(const char* file, const char* folder);

/// Returns where the trusted certificates are: the location that `options` names. If `options` names none: the file in
/// CURL_CA_BUNDLE or SSL_CERT_FILE, or else curl's default location.
trust trust_of(const client_options& options);

/// Makes curl trust the certificates of `trusted`, which must outlive `easy`. From libcurl 7.87 on, curl reads a file
/// once for each multi handle.
CURLcode set_trust(CURL* easy, const trust& trusted) noexcept;

/// Sets the client's own certificate and key, if `options` names them.
CURLcode set_identity(CURL* easy, const client_options& options) noexcept;

/// Throws errc::invalid_argument if the file of the client's certificate contains no certificate, or if the file of its
/// key contains no key.
void check_identity_files(const client_options& options);

/// Makes curl read the certificates now, so that no connection has to wait for that later. Returns an error if a
/// certificate or the client's key is invalid, or if there is no memory. Ignores errors of the connection.
///
/// curl reads certificates when a server has sent something. So this function runs a server on a loopback port for a
/// moment. The server answers up to 64 connections, because other processes may connect, too. If other processes take
/// all 64 connections, or if 5 s pass, curl reads the certificates with its first real connection.
///
/// Throws std::bad_alloc.
CURLcode read_certificates(CURLM* multi, const trust& trusted, const client_options& options);

}  // namespace canigo::http::detail
