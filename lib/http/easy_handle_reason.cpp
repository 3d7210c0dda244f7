#include "canigo/error.hpp"

#include "easy_handle.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <fcntl.h>
#include <new>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

// The functions of easy_handle that determine why a transfer has ended, as an error code and as a text.

namespace canigo::http::detail {
namespace {

bool is_out_of_descriptors() noexcept {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == EMFILE || errno == ENFILE;
  ::close(fd);
  return false;
}

bool has_memory_for(std::size_t size) noexcept {
  // This code calls the function operator new, because clang does not remove such a call. A new-expression with unused
  // memory would be removed, and would count as successful.
  void* const memory = ::operator new(size, std::nothrow);
  ::operator delete(memory);
  return memory != nullptr;
}

/// Whether curl uses OpenSSL. The numbers for certificate problems differ in other TLS libraries.
bool curl_uses_openssl() noexcept {
  static const bool does = [] {
    const char* name = curl_version_info(CURLVERSION_NOW)->ssl_version;
    return name != nullptr && std::string_view{name}.find("SSL/") != std::string_view::npos;
  }();
  return does;
}

}  // namespace

std::string easy_handle::problem(const transfer& t, std::error_code ec, CURLcode result) const {
  if (ec == errc::too_large) return passed_bound(t, result);
  if (result == CURLE_OPERATION_TIMEDOUT) {
    // The connect timeout is the only time limit that curl itself watches. curl reports the same result if the kernel
    // has given up connecting, which takes about two minutes.
    curl_off_t microseconds = 0;
    curl_easy_getinfo(get(), CURLINFO_TOTAL_TIME_T, &microseconds);
    constexpr std::chrono::milliseconds tolerance{100};
    const bool has_passed = connect_timeout_ - tolerance <= std::chrono::microseconds{microseconds};
    return has_passed ? passed_connect_timeout() : std::string{};
  }
  if (ec == error::address_refused) return "client_options.allow_address refuses " + refused_address_.to_string();
  const std::string said = said_.data();
  if (ec == error::bad_content_encoding) {
    const bool is_longer = result == CURLE_WRITE_ERROR;
    return "the body can't be decoded: " + (is_longer ? "bytes follow the end of what is encoded" : said);
  }
  if (ec == error::proxy_refused || ec == error::proxy_authentication_required) {
    return "the proxy answered with status " + std::to_string(number(CURLINFO_HTTP_CONNECTCODE));
  }
  constexpr std::array explained_by_curl{
      error::could_not_resolve_proxy, error::tls_connect_failed,          error::send_failed,
      error::receive_failed,          error::client_certificate_unusable, error::certificate_rejected,
      error::certificate_expired,     error::certificate_of_another_host, error::ca_file_unusable};
  const bool is_explained = std::ranges::any_of(explained_by_curl, [&](error e) { return ec == e; });
  return is_explained ? said : std::string{};
}

std::string easy_handle::passed_connect_timeout() const {
  return "client_options.connect_timeout of " + to_string(connect_timeout_) + " passed before " + missing_to_send();
}

void easy_handle::closes(curl_socket_t fd) noexcept {
  if (fd != newest_socket_) return;
  was_reached_ = is_reached();
  newest_socket_ = CURL_SOCKET_BAD;
}

bool easy_handle::is_reached() const noexcept {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  return ::getpeername(newest_socket_, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

const char* easy_handle::missing_to_send() const noexcept {
  curl_off_t microseconds = 0;
  curl_easy_getinfo(get(), CURLINFO_NAMELOOKUP_TIME_T, &microseconds);
  if (microseconds == 0) return "the address of the server, or of its proxy, was known";
  // curl reports the time of the TCP connect only together with the time of TLS. So is_reached() asks the socket
  // whether it is connected. If curl has closed the socket, was_reached_ has the last answer of is_reached().
  return was_reached_ || is_reached() ? "TLS was set up, or a proxy had reached the server" : "the server was reached";
}

std::string easy_handle::passed_bound(const transfer& t, CURLcode result) const {
  if (is_body_too_large_ || result == CURLE_FILESIZE_EXCEEDED) {
    const auto* what = !t.is_stream() ? "the body has"
                       : decodes_     ? "a part of the body decodes to"
                                      : "what came of the body before it was read has";
    return what + (" more than client_options.max_body, " + std::to_string(max_body_) + " bytes");
  }
  if (decodes_ && head_.is_complete()) return "a part of the body decodes to more than libcurl accepts";
  if (!refused_) return "the header fields, or one of their lines, are longer than libcurl accepts";
  return "the header fields have more than client_options.max_headers, " + std::to_string(max_headers_) + " bytes";
}

std::error_code easy_handle::reason(CURLcode result) const noexcept {
  // Several times the size limit of a header line in curl. If this much memory can be allocated, curl's error was not
  // caused by a lack of memory.
  constexpr std::size_t longest_line = 1 << 20;
  constexpr int too_large = 100;  // the value of CURLE_TOO_LARGE, which exists since curl 8.6
  // curl limits a response's head to 300 KiB. head_.bytes() does not count the line that exceeds the limit, and that
  // line may have up to 100 KiB. So the head may have exceeded the limit although only 200 KiB were counted.
  constexpr std::size_t near_bound_of_head = std::size_t{200} << 10;
  switch (static_cast<int>(result)) {
    case CURLE_OK:
      return {};
    case CURLE_OPERATION_TIMEDOUT:
      return errc::timed_out;
    case CURLE_FILESIZE_EXCEEDED:
    case too_large:
      return errc::too_large;
    case CURLE_OUT_OF_MEMORY:
      // Older versions of curl also report CURLE_OUT_OF_MEMORY for a header line that exceeds curl's limit.
      if (was_sent_in_this_hop() && !head_.is_complete() && has_memory_for(longest_line)) return errc::too_large;
      // Older versions of curl also report CURLE_OUT_OF_MEMORY for bytes that they decode while the transfer is paused.
      if (decodes_ && is_paused_ && has_memory_for(longest_line)) return errc::too_large;
      return errc::not_enough_memory;
    case CURLE_WRITE_ERROR:
      // curl also reports CURLE_WRITE_ERROR for bytes after the end of an encoded body, such as a second gzip member.
      if (decodes_ && head_.is_complete()) return error::bad_content_encoding;
      break;
    case CURLE_RECV_ERROR:
      // Older versions of curl report CURLE_RECV_ERROR for a head that exceeds curl's limit.
      if (!head_.is_complete() && head_.bytes() > near_bound_of_head) return errc::too_large;
      break;
    case CURLE_SEND_FAIL_REWIND:
      // Newer versions of curl report CURLE_SEND_FAIL_REWIND if an upload's connection has broken and the upload can't
      // be restarted.
      if (!head_.is_complete()) return error::no_response;
      break;
    case CURLE_UNSUPPORTED_PROTOCOL:
      // CURLE_UNSUPPORTED_PROTOCOL after the request was sent means that the answer's protocol is wrong: HTTP/0.9, or
      // an invalid status line.
      return was_sent_in_this_hop() ? error::weird_server_reply : error::unsupported_protocol;
    case CURLE_COULDNT_CONNECT:
      if (no_socket_ && !(has_opened_ && no_socket_ == error::address_refused)) return no_socket_;
      break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      if (!may_resend_ && was_sent_in_this_hop()) return error::no_response;
      if (is_out_of_descriptors()) return std::make_error_code(std::errc::too_many_files_open);
      break;
    case CURLE_BAD_FUNCTION_ARGUMENT:
      // curl 8.23 reports CURLE_BAD_FUNCTION_ARGUMENT for a key that does not match its certificate.
      if (has_identity_) return error::client_certificate_unusable;
      break;
    case CURLE_PEER_FAILED_VERIFICATION:
      return certificate_problem();
  }
  if (const auto answer = number(CURLINFO_HTTP_CONNECTCODE); answer >= 300) {
    constexpr int authentication_required = 407;
    return answer == authentication_required ? error::proxy_authentication_required : error::proxy_refused;
  }
  return {static_cast<int>(result), error_category()};
}

error easy_handle::certificate_problem() const noexcept {
  if (!curl_uses_openssl()) return error::certificate_rejected;
  switch (number(CURLINFO_SSL_VERIFYRESULT)) {
    case 9:   // the error X509_V_ERR_CERT_NOT_YET_VALID of OpenSSL
    case 10:  // the error X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL
      return error::certificate_expired;
    case 0:  // the value X509_V_OK of OpenSSL: the certificate is valid, but it is for another host
    case 1:  // the initial value that curl sets; it means that OpenSSL has checked nothing
      return error::certificate_of_another_host;
    default:
      return error::certificate_rejected;
  }
}

}  // namespace canigo::http::detail
