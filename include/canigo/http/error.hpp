#pragma once

#include <system_error>
#include <type_traits>

namespace canigo::http {

/// Codes of libcurl that a caller may want to distinguish. Their values are those of CURLcode, and the category also
/// accepts any other CURLcode. Codes from 1000 on are refinements of this library. The message of a code never contains
/// a URL or another part of the request. The text of an exception begins with the host.
///
/// Some errors have codes outside this enumeration: errc::timed_out for every timeout, errc::too_large for a response
/// beyond a maximum, errc::stopped, and Asio's operation_aborted for cancellation. A lack of file descriptors is
/// std::errc::too_many_files_open.
enum class error {
  unsupported_protocol = 1,  ///< neither http nor https, in the URL or in a redirect
  malformed_url = 3,
  could_not_resolve_proxy = 5,
  could_not_resolve_host = 6,
  could_not_connect = 7,    ///< connection refused, host unreachable, or no route
  weird_server_reply = 8,   ///< the answer is not HTTP
  http2_failed = 16,        ///< an error in the framing layer of HTTP/2
  partial_response = 18,    ///< the server closed the connection in the middle of the body
  tls_connect_failed = 35,  ///< the TLS handshake failed
  too_many_redirects = 47,
  no_response = 52,  ///< the server closed the connection without an answer; it may have executed the request
  send_failed = 55,
  receive_failed = 56,
  client_certificate_unusable = 58,  ///< cert_file or its key was valid when the client was made, but is not valid now
  certificate_rejected = 60,         ///< the server's certificate is not signed by a trusted authority
  bad_content_encoding = 61,
  ca_file_unusable = 77,  ///< the file with the trusted certificates can't be read
  http2_stream_failed = 92,
  certificate_expired = 1000,     ///< the server's certificate has expired, or is not valid yet
  certificate_of_another_host,    ///< the server's certificate is valid for other hosts only
  proxy_refused,                  ///< the proxy did not connect, for a reason other than proxy_authentication_required
  proxy_authentication_required,  ///< status 407: the proxy requires a user and a password, or refused the given ones
  address_refused,                ///< client_options::allow_address refused every address of the server
  server_failed,                  ///< only from send_checked(): the answer has status 408, or 500 and above
};

/// The error category "curl": its values are CURLcode, and its texts are those of curl.
///
/// The code for a lack of memory equals std::errc::not_enough_memory.
const std::error_category& error_category() noexcept;

/// Converts to `std::error_code`, so that `ec == http::error::could_not_connect` compiles.
std::error_code make_error_code(error code) noexcept;

}  // namespace canigo::http

template <>
struct std::is_error_code_enum<canigo::http::error> : std::true_type {};
