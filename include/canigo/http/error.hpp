#pragma once

#include <system_error>
#include <type_traits>

namespace canigo::http {

/// The codes of libcurl that a caller may want to tell apart. Their values are those of CURLcode, and the category can
/// carry any other CURLcode, too. The codes from 1000 on are finer than curl's. No text holds a URL, or any other part
/// of the request. An exception names the host before it.
///
/// The library's own decisions have codes of their own: errc::timed_out for every timeout, errc::too_large for a
/// response beyond a bound, errc::stopped, and Asio's operation_aborted for cancellation. A lack of file descriptors
/// is std::errc::too_many_files_open.
enum class error {
  unsupported_protocol = 1,  ///< neither http nor https, here or in a redirect
  malformed_url = 3,
  could_not_resolve_proxy = 5,
  could_not_resolve_host = 6,
  could_not_connect = 7,    ///< refused, unreachable, or no route
  weird_server_reply = 8,   ///< the answer is not HTTP
  http2_failed = 16,        ///< the HTTP/2 framing layer failed
  partial_response = 18,    ///< the server closed in the middle of the body
  tls_connect_failed = 35,  ///< the TLS handshake failed
  too_many_redirects = 47,
  no_response = 52,  ///< the server closed without an answer; it may have executed the request
  send_failed = 55,
  receive_failed = 56,
  client_certificate_unusable = 58,  ///< client_options::cert_file or its key has changed since the client was made
  certificate_rejected = 60,         ///< no trusted authority has signed the server's certificate
  bad_content_encoding = 61,
  ca_file_unusable = 77,  ///< the file with the trusted certificates can't be read
  http2_stream_failed = 92,
  certificate_expired = 1000,     ///< or not valid yet
  certificate_of_another_host,    ///< valid for other hosts only
  proxy_refused,                  ///< the proxy did not connect, for another reason than the next
  proxy_authentication_required,  ///< 407: the proxy wants a user and a password, or others
  address_refused,                ///< client_options::allow_address refused every address of the server
  server_failed,                  ///< only of send_checked(): the answer has the status 408, or one from 500 on
};

/// The category "curl": its values are CURLcode, its texts are curl's.
///
/// The code for lack of memory equals std::errc::not_enough_memory.
const std::error_category& error_category() noexcept;

/// The code as `std::error_code`, so that `ec == http::error::could_not_connect` works.
std::error_code make_error_code(error code) noexcept;

}  // namespace canigo::http

template <>
struct std::is_error_code_enum<canigo::http::error> : std::true_type {};
