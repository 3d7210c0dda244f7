#include "easy_handle.hpp"
#include "option_setter.hpp"
#include "request_check.hpp"
#include "text.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <new>
#include <string>
#include <system_error>

// The functions of easy_handle that set the options of the client and of a request in curl's handle.

namespace canigo::http::detail {
namespace {

long to_milliseconds(duration d) noexcept {
  // curl stores milliseconds in a long. On some systems a long has 32 bits, and can't represent 25 days.
  constexpr duration most = std::chrono::hours{24} * 24;
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(std::min(d, most)).count());
}

/// Returns curl's number for an HTTP version. An HTTP/2 server that does not want a body may end the stream after its
/// answer, as servers in Go do. libcurl then loses the answer, such as a 429. So requests with a body use HTTP/1.1 by
/// default.
long number_of(http_version v, bool sends_body) noexcept {
  if (v == http_version::http2) return CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE;
  return v == http_version::http1 || sends_body ? CURL_HTTP_VERSION_1_1 : CURL_HTTP_VERSION_2TLS;
}

}  // namespace

easy_handle::easy_handle(const client_options& options, const trust& trusted, connection_source& source,
                         curl_closesocket_callback close, void* closer)
    : connect_timeout_{options.connect_timeout},
      max_headers_{options.max_headers},
      max_body_{options.max_body},
      max_redirects_{options.max_redirects},
      decodes_{options.decode_body},
      has_identity_{!options.cert_file.empty()},
      version_{options.version},
      allow_address_{&options.allow_address},
      source_{&source},
      easy_{curl_easy_init()} {
  if (!easy_) throw std::bad_alloc{};
  CURL* easy = easy_.get();
  option_setter set{easy};
  set(CURLOPT_PRIVATE, this)(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_OPENSOCKETFUNCTION, &on_open)(CURLOPT_OPENSOCKETDATA, this);
  set(CURLOPT_CLOSESOCKETFUNCTION, close)(CURLOPT_CLOSESOCKETDATA, closer);
  set(CURLOPT_HEADERFUNCTION, &on_header)(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, &on_body)(CURLOPT_WRITEDATA, this);
  set(CURLOPT_READFUNCTION, &on_read)(CURLOPT_READDATA, this);
  set(CURLOPT_SEEKFUNCTION, &on_seek)(CURLOPT_SEEKDATA, this);
  set(CURLOPT_PREREQFUNCTION, &on_connected)(CURLOPT_PREREQDATA, this);
  set(CURLOPT_CONNECTTIMEOUT_MS, to_milliseconds(options.connect_timeout));
  set(CURLOPT_MAXREDIRS, static_cast<long>(options.max_redirects));
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https")(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
  constexpr long protocols = CURLPROTO_HTTP | CURLPROTO_HTTPS;
  set(CURLOPT_PROTOCOLS, protocols)(CURLOPT_REDIR_PROTOCOLS, protocols);
#endif
  set(CURLOPT_ERRORBUFFER, said_.data());
  set(CURLOPT_BUFFERSIZE, static_cast<long>(read_size));
  if (decodes_) set(CURLOPT_ACCEPT_ENCODING, "");
  if (!options.verify_tls) set(CURLOPT_SSL_VERIFYPEER, 0L)(CURLOPT_SSL_VERIFYHOST, 0L);
  if (!options.unix_socket.empty()) set(CURLOPT_UNIX_SOCKET_PATH, options.unix_socket.c_str());
  for (const known_address& known : options.known_addresses) {
    const std::string ip = known.address.to_string();
    const std::string colon = ":";
    append_line(known_addresses_, known.host + colon + std::to_string(known.port) + colon +
                                      (known.address.is_v6() ? "[" + ip + "]" : ip));
  }
  if (known_addresses_) set(CURLOPT_RESOLVE, known_addresses_.get());
  if (options.proxy) set(CURLOPT_PROXY, options.proxy->c_str());
  if (options.proxy == "") {
    // With an empty CURLOPT_NOPROXY, curl ignores the environment's list of hosts to reach without a proxy.
    set(CURLOPT_NOPROXY, "");
    // Without a proxy, User-Agent is set as an ordinary header field. With CURLOPT_USERAGENT, curl would format the
    // field twice for each request.
    if (!options.user_agent.empty()) {
      append_line(agent_, "User-Agent: " + options.user_agent);
    }
  } else if (!options.user_agent.empty()) {
    set(CURLOPT_USERAGENT, options.user_agent.c_str());
  }
  if (const auto code = set_trust(easy, trusted); code != CURLE_OK)
    throw std::system_error{reason(code), "http::client"};
  if (const auto code = set_identity(easy, options); code != CURLE_OK)
    throw std::system_error{reason(code), "http::client"};
  if (set.result() != CURLE_OK) throw std::system_error{reason(set.result()), "http::client"};
#if LIBCURL_VERSION_NUM >= 0x075700
  // Without this option, a transfer that is cancelled during its name look-up waits for the resolver. All other
  // transfers would wait, too.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
}

void easy_handle::set_headers(const request& r, bool has_body) {
  fields_.reset();
  const auto append = [&](const std::string& one) { append_line(fields_, one); };
  std::string line;
  for (const auto h : r.headers) {
    // curl takes "Name;" as a field without a value. "Name:" would instead remove a field that curl adds itself.
    line.assign(h.name);
    if (const auto value = trim(h.value); value.empty()) {
      line += ';';
    } else {
      line.append(": ").append(value);
    }
    append(line);
  }
  if (has_body) {
    // Removes two fields that curl adds to a request with a body: the Content-Type of a form, and, for a large body,
    // Expect: 100-continue.
    if (!r.headers.contains("Content-Type")) append("Content-Type:");
    if (!r.headers.contains("Expect")) append("Expect:");
  }
  if (fields_ && agent_ && !r.headers.contains("User-Agent")) append(agent_->data);
}

CURLcode easy_handle::set_method(const transfer& t, bool has_body) noexcept {
  const request& r = t.request_;
  const bool is_stream = t.is_stream();
  const auto length_to_write = t.length_to_write();
  const bool is_get = r.method == "GET";
  const bool is_head = r.method == "HEAD";
  const bool is_post = r.method == "POST";
  const bool is_plain_get = is_get && !is_stream && r.target.empty();
  if (is_plain_get && is_set_for_get_) return CURLE_OK;
  option_setter set{get()};
  set(CURLOPT_HTTP_VERSION, number_of(version_, length_to_write || !r.body.empty()));
  // Resets the options of the previous request. The order matters, because setting POSTFIELDS makes the request a POST.
  set(CURLOPT_POSTFIELDS, nullptr)(CURLOPT_CUSTOMREQUEST, nullptr)(CURLOPT_HTTPGET, 1L);
  if (is_head) {
    set(CURLOPT_NOBODY, 1L);
  } else if (length_to_write) {
    set(CURLOPT_UPLOAD, 1L)(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(*length_to_write));
  } else if (has_body) {
    set(CURLOPT_POST, 1L)(CURLOPT_POSTFIELDS, r.body.data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(r.body.size()));
  }
  if (!is_get && !is_head && (!is_post || length_to_write)) set(CURLOPT_CUSTOMREQUEST, r.method.c_str());
  // With methods other than GET, HEAD and POST, curl would repeat the request at the new URL for every redirect status.
  // With a request::target, curl would send that target to the new URL, too. So such redirects are not followed.
  follows_ = max_redirects_ > 0 && (is_get || is_head || is_post) && r.target.empty() && !length_to_write;
  set(CURLOPT_FOLLOWLOCATION, follows_ ? 1L : 0L);
  if (decodes_) {
    // curl decodes all bytes of a read in one step. So the reads are small: gzip expands 4 KiB to at most 4 MB.
    // Transfers over HTTP/2 use larger reads, because an older curl blocks if it has no space for a whole frame while
    // the transfer is paused.
    const bool may_be_http2 = version_ == http_version::http2 ||
                              (version_ == http_version::negotiated && starts_with_any_case(r.url, "https://"));
    set(CURLOPT_BUFFERSIZE, may_be_http2 ? static_cast<long>(read_size) : 4096L);
  }
  most_body_ = is_stream ? std::numeric_limits<std::size_t>::max() : max_body_;
  // MAXFILESIZE checks Content-Length. It is off for HEAD, whose answer has no body, and for an encoded body, whose
  // length is not that of the decoded body. For a stream, most_body_ is unlimited.
  constexpr std::size_t no_limit = 0;
  const std::size_t most = is_head || is_stream || decodes_ ? no_limit : std::max<std::size_t>(max_body_, 1);
  set(CURLOPT_MAXFILESIZE_LARGE,
      static_cast<curl_off_t>(std::min<std::size_t>(most, std::numeric_limits<curl_off_t>::max())));
  is_set_for_get_ = is_plain_get && set.result() == CURLE_OK;
  return set.result();
}

}  // namespace canigo::http::detail
