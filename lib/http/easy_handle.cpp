#include "easy_handle.hpp"

#include "ascii_url.hpp"
#include "request_check.hpp"
#include "text.hpp"

#include <asio/ip/tcp.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <new>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace canigo::http::detail {
namespace {

bool starts_with_any_case(std::string_view text, std::string_view lower) noexcept {
  return text.size() >= lower.size() && same_text(text.substr(0, lower.size()), lower);
}

// curl guesses a scheme where there is none, which turns a typing error into a name look-up.
std::error_code check_scheme(std::string_view url) noexcept {
  if (starts_with_any_case(url, "http://") || starts_with_any_case(url, "https://")) return {};
  const auto scheme = url.substr(0, std::min(url.find("://"), url.size()));
  const bool has_scheme = scheme.size() < url.size() && is_token(scheme);
  return has_scheme ? error::unsupported_protocol : error::malformed_url;
}

/// RFC 9110, 9.2.2: methods with the same effect whether a request arrives once or twice.
bool is_idempotent(std::string_view method) noexcept {
  constexpr std::array all{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"};
  return std::ranges::find(all, method) != all.end();
}

/// RFC 9112, 9.6: after a request that says so, its connection is to carry no other.
bool asks_to_close(const headers& all) noexcept {
  return std::ranges::any_of(all,
                             [](header h) { return same_text(h.name, "Connection") && has_element(h.value, "close"); });
}

bool is_out_of_descriptors() noexcept {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == EMFILE || errno == ENFILE;
  ::close(fd);
  return false;
}

bool has_memory_for(std::size_t size) noexcept {
  return std::unique_ptr<char[]>{new (std::nothrow) char[size]} != nullptr;
}

long to_milliseconds(duration d) noexcept {
  constexpr duration most = std::chrono::hours{24} * 24;  // curl counts in a long, 32 bits on some systems
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(std::min(d, most)).count());
}

long number_of(http_version v) noexcept {
  if (v == http_version::http1) return CURL_HTTP_VERSION_1_1;
  return v == http_version::http2 ? CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE : CURL_HTTP_VERSION_2TLS;
}

/// Another TLS library has other numbers for the problems of a certificate.
bool curl_uses_openssl() noexcept {
  static const bool does = [] {
    const char* name = curl_version_info(CURLVERSION_NOW)->ssl_version;
    return name != nullptr && std::string_view{name}.find("SSL/") != std::string_view::npos;
  }();
  return does;
}

template <class List>
void append_line(List& list, const std::string& line) {
  curl_slist* longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc{};
  if (!list) list.reset(longer);
}

/// Sets options until one fails.
class option_setter {
 public:
  explicit option_setter(CURL* easy) noexcept : easy_{easy} {}

  template <class Value>
  option_setter& operator()(CURLoption option, Value value) noexcept {
    if (result_ == CURLE_OK) result_ = curl_easy_setopt(easy_, option, value);
    return *this;
  }
  CURLcode result() const noexcept { return result_; }

 private:
  CURL* easy_;
  CURLcode result_ = CURLE_OK;
};

}  // namespace

easy_handle::easy_handle(const client_options& options, const trust& trusted, connection_source& source,
                         curl_closesocket_callback close, void* closer)
    : max_headers_{options.max_headers},
      max_body_{options.max_body},
      max_redirects_{options.max_redirects},
      decodes_{options.decode_body},
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
  set(CURLOPT_PREREQFUNCTION, &on_connected)(CURLOPT_PREREQDATA, this);
  set(CURLOPT_CONNECTTIMEOUT_MS, to_milliseconds(options.connect_timeout));
  set(CURLOPT_MAXREDIRS, static_cast<long>(options.max_redirects));
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https")(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
  constexpr long protocols = CURLPROTO_HTTP | CURLPROTO_HTTPS;
  set(CURLOPT_PROTOCOLS, protocols)(CURLOPT_REDIR_PROTOCOLS, protocols);
#endif
  set(CURLOPT_HTTP_VERSION, number_of(options.version));
  set(CURLOPT_ERRORBUFFER, said_.data());
  if (decodes_) {
    // curl decodes all that it has read at once, so it is to read little: gzip makes 4 MB of this at most.
    set(CURLOPT_ACCEPT_ENCODING, "")(CURLOPT_BUFFERSIZE, 4096L);
  }
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
    // Without a proxy the agent goes to the server only, so it can be an ordinary field. Otherwise curl formats it
    // twice for each request. It would also look in the environment for exceptions to a proxy that is not there.
    set(CURLOPT_NOPROXY, "");
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
  // Without it, a transfer that is cancelled while its name is looked up waits for the resolver, and so does every
  // other transfer.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
}

easy_handle* easy_handle::of(CURL* easy) noexcept {
  char* self = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &self);
  return reinterpret_cast<easy_handle*>(self);
}

std::error_code easy_handle::begin(transfer& t) noexcept {
  const request& r = t.request_;
  if (const auto ec = check_scheme(r.url)) return ec;
  const bool has_body =
      !r.body.empty() || t.length_to_write() || r.method == "POST" || r.method == "PUT" || r.method == "PATCH";
  option_setter set{get()};
  try {
    if (problem_of(r)) return errc::invalid_argument;
    set_headers(r, has_body);
    if (has_other_letters(r.url)) {
      const auto url = with_ascii_host(r.url);
      if (!url) return error::malformed_url;
      set(CURLOPT_URL, url->c_str());
    } else {
      set(CURLOPT_URL, r.url.c_str());
    }
  } catch (...) {
    return errc::not_enough_memory;
  }
  set(CURLOPT_HTTPHEADER, fields_ ? fields_.get() : agent_.get());
  set(CURLOPT_REQUEST_TARGET, r.target.empty() ? nullptr : r.target.c_str());
  set(CURLOPT_FRESH_CONNECT, 0L)(CURLOPT_FORBID_REUSE, asks_to_close(r.headers) ? 1L : 0L);
  if (set.result() != CURLE_OK) return reason(set.result());
  if (r.url.find('\0') != std::string::npos) return error::malformed_url;
  if (const auto code = set_method(t, has_body); code != CURLE_OK) return reason(code);
  transfer_ = &t;
  t.easy_ = this;
  refused_ = {};
  is_body_too_large_ = false;
  is_paused_ = false;
  is_starved_ = false;
  head_told_ = false;
  no_socket_ = {};
  has_opened_ = false;
  local_port_ = 0;
  sent_hop_ = -1;
  sent_connects_ = 0;
  may_resend_ = is_idempotent(r.method) && !t.length_to_write();
  head_ = response_head{max_headers_};
  said_.front() = '\0';
  return {};
}

void easy_handle::set_headers(const request& r, bool has_body) {
  fields_.reset();
  const auto append = [&](const std::string& one) { append_line(fields_, one); };
  std::string line;
  for (const auto h : r.headers) {
    // A field without a value is written so; with a colon it would take away one that curl adds itself.
    line.assign(h.name);
    if (const auto value = trim(h.value); value.empty()) {
      line += ';';
    } else {
      line.append(": ").append(value);
    }
    append(line);
  }
  if (has_body) {
    // curl takes every body for a form, and asks the server's leave before it sends a large one.
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
  // Takes back what the request before has set. In this order: any POSTFIELDS makes it a POST.
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
  // curl would send any other method to the new place whatever the status says, and the target, too.
  follows_ = max_redirects_ > 0 && (is_get || is_head || is_post) && r.target.empty() && !length_to_write;
  set(CURLOPT_FOLLOWLOCATION, follows_ ? 1L : 0L);
  most_body_ = is_stream ? std::numeric_limits<std::size_t>::max() : max_body_;
  // The length that HEAD announces is not a body, and that of an encoded body says nothing of its bytes.
  constexpr std::size_t no_limit = 0;
  const std::size_t most = is_head || is_stream || decodes_ ? no_limit : std::max<std::size_t>(max_body_, 1);
  set(CURLOPT_MAXFILESIZE_LARGE,
      static_cast<curl_off_t>(std::min<std::size_t>(most, std::numeric_limits<curl_off_t>::max())));
  is_set_for_get_ = is_plain_get && set.result() == CURLE_OK;
  return set.result();
}

std::error_code easy_handle::resume() noexcept {
  const bool is_waiting = std::exchange(is_paused_, false) || is_starved_;
  is_starved_ = false;
  if (!is_waiting) return {};
  const CURLcode result = curl_easy_pause(get(), CURLPAUSE_CONT);
  return refused_ ? *refused_ : reason(result);
}

std::error_code easy_handle::end(CURLcode result) noexcept {
  transfer& t = *transfer_;
  transfer_ = nullptr;
  t.easy_ = nullptr;
  std::error_code ec = refused_ ? *refused_ : reason(result);
  // curl takes a head that breaks off for a short one.
  if (!ec && !head_.is_complete()) ec = error::partial_response;
  try {
    // After an abort it says already why.
    if (t.response_.problem.empty()) t.response_.problem = problem(t, ec, result);
    fill(t.response_);
  } catch (...) {
    if (!ec) ec = errc::not_enough_memory;
  }
  return ec;
}

void easy_handle::pause() noexcept {
  is_paused_ = true;  // before curl says that it waits no more
  is_paused_ = curl_easy_pause(get(), CURLPAUSE_RECV) == CURLE_OK;
  if (is_paused_) source_->paused(*this);
}

std::string easy_handle::problem(const transfer& t, std::error_code ec, CURLcode result) const {
  if (ec == errc::too_large) return passed_bound(t, result);
  if (ec == error::address_refused) return "client_options.allow_address refuses " + refused_address_.to_string();
  const std::string said = said_.data();
  if (ec == error::bad_content_encoding) return "the body can't be decoded: " + said;
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

std::string easy_handle::passed_bound(const transfer& t, CURLcode result) const {
  if (is_body_too_large_ || result == CURLE_FILESIZE_EXCEEDED) {
    const auto* what = t.is_stream() ? "a part of the body decodes to" : "the body has";
    return what + (" more than client_options.max_body, " + std::to_string(max_body_) + " bytes");
  }
  if (decodes_ && head_.is_complete()) return "a part of the body decodes to more than libcurl accepts";
  if (!refused_) return "the header fields, or one of their lines, are longer than libcurl accepts";
  return "the header fields have more than client_options.max_headers, " + std::to_string(max_headers_) + " bytes";
}

std::error_code easy_handle::reason(CURLcode result) const noexcept {
  // The bound of a header line in curl, several times over.
  constexpr std::size_t longest_line = 1 << 20;
  constexpr int too_large = 100;  // CURLE_TOO_LARGE, of 8.6
  // The bound of a response's head in curl is 300 KiB; its last line, of 100 KiB at most, does not come here.
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
      // Older ones say the same of a header line beyond their bound.
      if (was_sent_in_this_hop() && !head_.is_complete() && has_memory_for(longest_line)) return errc::too_large;
      // And of what it decodes while the transfer is paused.
      if (decodes_ && is_paused_ && has_memory_for(longest_line)) return errc::too_large;
      return errc::not_enough_memory;
    case CURLE_RECV_ERROR:
      // Older ones say so of a head beyond their bound.
      if (!head_.is_complete() && head_.bytes() > near_bound_of_head) return errc::too_large;
      break;
    case CURLE_UNSUPPORTED_PROTOCOL:
      // After the request was sent it is the answer's protocol: HTTP/0.9, or an invalid status line.
      return was_sent_in_this_hop() ? error::weird_server_reply : error::unsupported_protocol;
    case CURLE_COULDNT_CONNECT:
      if (no_socket_ && !(has_opened_ && no_socket_ == error::address_refused)) return no_socket_;
      break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      if (!may_resend_ && was_sent_in_this_hop()) return error::no_response;
      if (is_out_of_descriptors()) return std::make_error_code(std::errc::too_many_files_open);
      break;
    case CURLE_PEER_FAILED_VERIFICATION:
      return certificate_problem();
    default:
      break;
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
    case 9:   // X509_V_ERR_CERT_NOT_YET_VALID
    case 10:  // X509_V_ERR_CERT_HAS_EXPIRED
      return error::certificate_expired;
    case 0:  // X509_V_OK; curl itself has compared the names, before it asked for the result
    case 1:  // curl's initial value
      return error::certificate_of_another_host;
    default:
      return error::certificate_rejected;
  }
}

int easy_handle::number(CURLINFO info) const noexcept {
  long value = 0;
  curl_easy_getinfo(get(), info, &value);
  return static_cast<int>(value);
}

bool easy_handle::was_sent_in_this_hop() const noexcept { return sent_hop_ == number(CURLINFO_REDIRECT_COUNT); }

void easy_handle::fill(response& r) const {
  const auto time = [&](CURLINFO info) -> duration {
    curl_off_t value = 0;
    curl_easy_getinfo(get(), info, &value);
    return std::chrono::microseconds{value};
  };
  r.status = number(CURLINFO_RESPONSE_CODE);
  r.redirects = number(CURLINFO_REDIRECT_COUNT);
  r.reused = sent_hop_ >= 0 && number(CURLINFO_NUM_CONNECTS) == 0;
  r.timing.resolved = time(CURLINFO_NAMELOOKUP_TIME_T);
  r.timing.connected = time(CURLINFO_CONNECT_TIME_T);
  r.timing.secured = time(CURLINFO_APPCONNECT_TIME_T);
  r.timing.first_byte = time(CURLINFO_STARTTRANSFER_TIME_T);
  r.timing.total = time(CURLINFO_TOTAL_TIME_T);
  const char* url = "";
  curl_easy_getinfo(get(), CURLINFO_EFFECTIVE_URL, &url);
  r.url = url;
  const char* redirect = nullptr;
  curl_easy_getinfo(get(), CURLINFO_REDIRECT_URL, &redirect);
  if (redirect != nullptr) r.redirect = redirect;
}

// The callbacks stand in curl's stack frames, which no exception may pass. Anything but `size` ends the transfer.

std::size_t easy_handle::on_header(char* data, std::size_t, std::size_t size, void* self) noexcept {
  auto& h = *static_cast<easy_handle*>(self);
  transfer& t = *h.transfer_;
  try {
    if (const auto ec = h.head_.take({data, size}, t.response_.headers, t.request_.headers)) h.refused_ = ec;
    if (!h.refused_ && t.is_stream() && h.is_final_head()) h.tell_head();
  } catch (...) {
    h.refused_ = errc::not_enough_memory;
  }
  return h.refused_ ? 0 : size;
}

std::size_t easy_handle::on_body(char* data, std::size_t, std::size_t size, void* self) noexcept {
  auto& h = *static_cast<easy_handle*>(self);
  transfer& t = *h.transfer_;
  if (size > h.most_body_ - t.response_.body_size) {
    h.refused_ = errc::too_large;
    h.is_body_too_large_ = true;
    return size + 1;
  }
  try {
    if (t.is_stream()) h.tell_head();
    if (t.is_stream() && h.decodes_) {
      if (!h.take_decoded({data, size})) return size + 1;
    } else {
      h.is_paused_ = !t.take({data, size});
      if (h.is_paused_) {
        h.source_->paused(h);
        return CURL_WRITEFUNC_PAUSE;
      }
    }
  } catch (...) {
    h.refused_ = errc::not_enough_memory;
    return size + 1;
  }
  t.response_.body_size += size;
  return size;
}

std::size_t easy_handle::on_read(char* to, std::size_t, std::size_t room, void* self) noexcept {
  auto& h = *static_cast<easy_handle*>(self);
  const auto size = h.transfer_->give(to, room);
  h.is_starved_ = !size;
  return size.value_or(CURL_READFUNC_PAUSE);
}

bool easy_handle::take_decoded(std::string_view part) {
  if (!transfer_->take_all(part, max_body_)) {
    refused_ = errc::too_large;
    is_body_too_large_ = true;
    return false;
  }
  // To refuse the part would have curl copy all that follows of this read once for each part of it.
  if (transfer_->is_ahead()) pause();
  return true;
}

bool easy_handle::is_final_head() const noexcept {
  // That of a proxy comes before the request is sent.
  if (!head_.is_complete() || !was_sent_in_this_hop()) return false;
  const int status = number(CURLINFO_RESPONSE_CODE);
  constexpr int switching = 101, first_final = 200, first_redirect = 300, first_error = 400, expectation_failed = 417;
  if (status < first_final && status != switching) return false;
  const headers& fields = transfer_->response_.headers;
  if (follows_ && status >= first_redirect && status < first_error) return fields.find("Location").value_or("").empty();
  // curl sends such a request again without the field. If it does not, the body or the end tells.
  return status != expectation_failed || !transfer_->request_.headers.contains("Expect");
}

void easy_handle::tell_head() {
  if (head_told_) return;
  fill(transfer_->response_);
  transfer_->response_.timing.total = {};
  head_told_ = true;
  transfer_->head_came();
}

bool easy_handle::may_connect(const curl_sockaddr& address) noexcept {
  if (!*allow_address_ || (address.family != AF_INET && address.family != AF_INET6)) return true;
  try {
    net::ip::tcp::endpoint at;
    at.resize(address.addrlen);
    std::memcpy(at.data(), &address.addr, address.addrlen);
    refused_address_ = at.address();
    if ((*allow_address_)(at.address())) return true;
  } catch (...) {
  }
  no_socket_ = error::address_refused;
  return false;
}

curl_socket_t easy_handle::on_open(void* self, curlsocktype, curl_sockaddr* address) noexcept {
  auto& h = *static_cast<easy_handle*>(self);
  // If the request has gone out already, curl opens this socket to send it again.
  if (!h.may_resend_ && h.was_sent_in_this_hop()) {
    h.is_worn_ = true;
    h.refused_ = error::no_response;
    return CURL_SOCKET_BAD;
  }
  if (!h.may_connect(*address)) return CURL_SOCKET_BAD;
  const curl_socket_t fd = h.source_->open_socket(*address);
  h.has_opened_ = h.has_opened_ || fd != CURL_SOCKET_BAD;
  if (fd == CURL_SOCKET_BAD && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
    h.no_socket_ = {errno, std::system_category()};
  }
  return fd;
}

int easy_handle::on_connected(void* self, char*, char*, int, int local_port) noexcept {
  auto& h = *static_cast<easy_handle*>(self);
  h.transfer_->connected_ = true;
  h.no_socket_ = {};
  h.has_opened_ = false;
  return h.may_send(local_port) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/// If a reused connection breaks before the first byte of the answer, curl sends the request again, up to five times.
/// But the server may have executed the request each time. So this allows it once, and only for idempotent methods.
bool easy_handle::may_send(int local_port) noexcept {
  const int hop = number(CURLINFO_REDIRECT_COUNT);
  const auto was_redirected = [&] {
    const int status = number(CURLINFO_RESPONSE_CODE);
    return status >= 300 && status < 400;
  };
  const bool was_broken = hop == sent_hop_;
  // The other reason to send again is a server that refuses the field Expect; curl counts that as a redirect.
  const bool is_again = was_broken || (sent_hop_ >= 0 && !was_redirected());
  is_worn_ = is_worn_ || is_again;
  if (is_again && !may_resend_) {
    refused_ = was_broken ? make_error_code(error::no_response) : std::error_code{};
    return false;
  }
  // If there is a next time, it must use a connection that has not been idle.
  if (may_resend_) curl_easy_setopt(get(), CURLOPT_FRESH_CONNECT, 1L);
  // A spoiled connection can send nothing, so curl takes another one.
  if (source_->spoil_if_unclean(local_port)) {
    curl_easy_setopt(get(), CURLOPT_FRESH_CONNECT, 1L);
    is_worn_ = true;
    return true;
  }
  const int connects = number(CURLINFO_NUM_CONNECTS);
  // After a redirect curl may still take an idle connection, perhaps as stale as the first. So spoil all idle ones:
  // then curl makes a new one.
  if (was_broken && connects == sent_connects_ && source_->spoil_idle(local_port)) return true;
  if (is_again) {
    may_resend_ = false;
    ++transfer_->response_.resends;
  }
  sent_hop_ = hop;
  sent_connects_ = connects;
  local_port_ = local_port;
  return true;
}

}  // namespace canigo::http::detail
