#include "canigo/http/error.hpp"

#include <curl/curl.h>

#include <string>

namespace canigo::http {
namespace {

template <error Name, CURLcode Code>
constexpr bool is = static_cast<int>(Name) == static_cast<int>(Code);

// The public header can't include curl's header, so it repeats curl's numbers, which curl never changes. These
// assertions check the numbers.
static_assert(is<error::unsupported_protocol, CURLE_UNSUPPORTED_PROTOCOL>);
static_assert(is<error::malformed_url, CURLE_URL_MALFORMAT>);
static_assert(is<error::could_not_resolve_proxy, CURLE_COULDNT_RESOLVE_PROXY>);
static_assert(is<error::could_not_resolve_host, CURLE_COULDNT_RESOLVE_HOST>);
static_assert(is<error::could_not_connect, CURLE_COULDNT_CONNECT>);
static_assert(is<error::weird_server_reply, CURLE_WEIRD_SERVER_REPLY>);
static_assert(is<error::http2_failed, CURLE_HTTP2>);
static_assert(is<error::partial_response, CURLE_PARTIAL_FILE>);
static_assert(is<error::tls_connect_failed, CURLE_SSL_CONNECT_ERROR>);
static_assert(is<error::too_many_redirects, CURLE_TOO_MANY_REDIRECTS>);
static_assert(is<error::no_response, CURLE_GOT_NOTHING>);
static_assert(is<error::send_failed, CURLE_SEND_ERROR>);
static_assert(is<error::receive_failed, CURLE_RECV_ERROR>);
static_assert(is<error::client_certificate_unusable, CURLE_SSL_CERTPROBLEM>);
static_assert(is<error::certificate_rejected, CURLE_PEER_FAILED_VERIFICATION>);
static_assert(is<error::bad_content_encoding, CURLE_BAD_CONTENT_ENCODING>);
static_assert(is<error::ca_file_unusable, CURLE_SSL_CACERT_BADFILE>);
static_assert(is<error::http2_stream_failed, CURLE_HTTP2_STREAM>);

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "curl"; }

  std::string message(int value) const override {
    switch (error{value}) {
      case error::certificate_expired:
        return "The server's certificate has expired, or is not valid yet";
      case error::certificate_of_another_host:
        return "The server's certificate is that of another host";
      case error::proxy_refused:
        return "The proxy refused to connect to the server";
      case error::proxy_authentication_required:
        return "The proxy wants a user and a password, or others (407)";
      case error::address_refused:
        return "The client does not connect to the server's address";
      case error::server_failed:
        return "The server failed";
      default:
        return curl_easy_strerror(static_cast<CURLcode>(value));
    }
  }

  std::error_condition default_error_condition(int value) const noexcept override {
    if (value == CURLE_OUT_OF_MEMORY) return std::make_error_condition(std::errc::not_enough_memory);
    return {value, *this};
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const category instance;
  return instance;
}

std::error_code make_error_code(error code) noexcept { return {static_cast<int>(code), error_category()}; }

}  // namespace canigo::http
