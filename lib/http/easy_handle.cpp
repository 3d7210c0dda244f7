#include "easy_handle.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <string>

namespace canigo::http::detail {
namespace {

constexpr bool is_token(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view{"!#$%&'*+-.^_`|~"}.find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return is_token(c); });
}

// A line break in a value would be a field, or a request, of somebody else's making.
bool is_field_value(std::string_view text) noexcept {
  return text.find_first_of(std::string_view{"\r\n\0", 3}) == std::string_view::npos;
}

constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

constexpr std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool starts_with_any_case(std::string_view text, std::string_view lower) noexcept {
  return text.size() >= lower.size() && std::ranges::equal(text.substr(0, lower.size()), lower, {}, [](char c) {
           return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
         });
}

// curl guesses a scheme where there is none, which turns a typing error into a name look-up.
std::error_code check_scheme(std::string_view url) noexcept {
  if (starts_with_any_case(url, "http://") || starts_with_any_case(url, "https://")) return {};
  const auto scheme = url.substr(0, std::min(url.find("://"), url.size()));
  const bool has_scheme = scheme.size() < url.size() && is_token(scheme);
  return has_scheme ? error::unsupported_protocol : error::malformed_url;
}

std::error_code to_error_code(CURLcode code) noexcept {
  switch (code) {
    case CURLE_OK:
      return {};
    case CURLE_OPERATION_TIMEDOUT:
      return errc::timed_out;
    case CURLE_FILESIZE_EXCEEDED:
      return errc::too_large;
    case CURLE_OUT_OF_MEMORY:
      return errc::not_enough_memory;
    default:
      return {static_cast<int>(code), error_category()};
  }
}

long to_milliseconds(duration d) noexcept {
  constexpr duration most = std::chrono::hours{24} * 24;  // curl counts in a long, 32 bits on some systems
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(std::min(d, most)).count());
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

easy_handle::easy_handle(const client_options& options, curl_opensocket_callback open, curl_closesocket_callback close,
                         void* sockets)
    : max_headers_{options.max_headers},
      max_body_{options.max_body},
      max_redirects_{options.max_redirects},
      easy_{curl_easy_init()} {
  if (!easy_) throw std::bad_alloc{};
  CURL* easy = easy_.get();
  option_setter set{easy};
  set(CURLOPT_PRIVATE, this)(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_OPENSOCKETFUNCTION, open)(CURLOPT_OPENSOCKETDATA, sockets);
  set(CURLOPT_CLOSESOCKETFUNCTION, close)(CURLOPT_CLOSESOCKETDATA, sockets);
  set(CURLOPT_HEADERFUNCTION, &on_header)(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, &on_body)(CURLOPT_WRITEDATA, this);
  set(CURLOPT_PREREQFUNCTION, &on_connected)(CURLOPT_PREREQDATA, this);
  set(CURLOPT_CONNECTTIMEOUT_MS, to_milliseconds(options.connect_timeout));
  set(CURLOPT_MAXREDIRS, static_cast<long>(options.max_redirects));
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https")(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
  constexpr long protocols = CURLPROTO_HTTP | CURLPROTO_HTTPS;
  set(CURLOPT_PROTOCOLS, protocols)(CURLOPT_REDIR_PROTOCOLS, protocols);
#endif
  if (!options.verify_tls) set(CURLOPT_SSL_VERIFYPEER, 0L)(CURLOPT_SSL_VERIFYHOST, 0L);
  if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str())(CURLOPT_CAPATH, nullptr);
  if (options.proxy) set(CURLOPT_PROXY, options.proxy->c_str());
  if (options.proxy == "") {
    // Without a proxy there is nobody else to name the agent to, and it is a field as any other: curl would format it
    // twice each time, and look for exceptions to no proxy in the environment.
    set(CURLOPT_NOPROXY, "");
    if (!options.user_agent.empty()) {
      agent_.reset(curl_slist_append(nullptr, ("User-Agent: " + options.user_agent).c_str()));
      if (!agent_) throw std::bad_alloc{};
    }
  } else if (!options.user_agent.empty()) {
    set(CURLOPT_USERAGENT, options.user_agent.c_str());
  }
  if (set.result() != CURLE_OK) throw std::system_error{to_error_code(set.result()), "http::client"};
#if LIBCURL_VERSION_NUM >= 0x075700
  // Without it, a transfer that is cancelled while its name is looked up waits for the resolver, and everybody with
  // it.
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
  const bool takes_no_body = r.method == "GET" || r.method == "HEAD";
  if (!is_token(r.method) || (takes_no_body && !r.body.empty())) return errc::invalid_argument;
  try {
    if (const auto ec = set_headers(r)) return ec;
  } catch (...) {
    return errc::not_enough_memory;
  }
  option_setter set{get()};
  set(CURLOPT_URL, r.url.c_str())(CURLOPT_HTTPHEADER, fields_ ? fields_.get() : agent_.get());
  if (set.result() != CURLE_OK) return to_error_code(set.result());
  if (r.url.find('\0') != std::string::npos) return error::malformed_url;
  if (const auto code = set_method(r); code != CURLE_OK) return to_error_code(code);
  transfer_ = &t;
  t.easy_ = this;
  refused_ = {};
  head_complete_ = false;
  return {};
}

std::error_code easy_handle::set_headers(const request& r) {
  fields_.reset();
  const auto append = [&](const char* line) {
    curl_slist* longer = curl_slist_append(fields_.get(), line);
    if (longer == nullptr) throw std::bad_alloc{};
    if (!fields_) fields_.reset(longer);
  };
  std::string line;
  for (const auto h : r.headers) {
    if (!is_token(h.name) || !is_field_value(h.value)) return errc::invalid_argument;
    // A field without a value is written so; with a colon it would take away one that curl adds itself.
    line.assign(h.name);
    if (const auto value = trim(h.value); value.empty()) {
      line += ';';
    } else {
      line.append(": ").append(value);
    }
    append(line.c_str());
  }
  if (!r.body.empty()) {
    // curl takes every body for a form, and asks the server's leave before it sends a large one.
    if (!r.headers.contains("Content-Type")) append("Content-Type:");
    if (!r.headers.contains("Expect")) append("Expect:");
  }
  if (fields_ && agent_ && !r.headers.contains("User-Agent")) append(agent_->data);
  return {};
}

CURLcode easy_handle::set_method(const request& r) noexcept {
  const bool is_get = r.method == "GET";
  const bool is_head = r.method == "HEAD";
  const bool is_post = r.method == "POST";
  if (is_get && is_set_for_get_) return CURLE_OK;
  option_setter set{get()};
  // Takes back what the request before has set. In this order: any POSTFIELDS makes it a POST.
  set(CURLOPT_POSTFIELDS, nullptr)(CURLOPT_CUSTOMREQUEST, nullptr)(CURLOPT_HTTPGET, 1L);
  if (is_head) {
    set(CURLOPT_NOBODY, 1L);
  } else if (is_post || !r.body.empty() || r.method == "PUT" || r.method == "PATCH") {
    set(CURLOPT_POST, 1L)(CURLOPT_POSTFIELDS, r.body.data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(r.body.size()));
  }
  if (!is_get && !is_head && !is_post) set(CURLOPT_CUSTOMREQUEST, r.method.c_str());
  // curl would send any other method to the new place whatever the status says.
  const bool follow = max_redirects_ > 0 && (is_get || is_head || is_post);
  set(CURLOPT_FOLLOWLOCATION, follow ? 1L : 0L);
  // The length that HEAD announces is not a body.
  constexpr std::size_t no_limit = 0;
  const std::size_t most = is_head ? no_limit : std::max<std::size_t>(max_body_, 1);
  set(CURLOPT_MAXFILESIZE_LARGE,
      static_cast<curl_off_t>(std::min<std::size_t>(most, std::numeric_limits<curl_off_t>::max())));
  is_set_for_get_ = is_get && set.result() == CURLE_OK;
  return set.result();
}

std::error_code easy_handle::end(CURLcode result) noexcept {
  transfer& t = *transfer_;
  transfer_ = nullptr;
  t.easy_ = nullptr;
  std::error_code ec = refused_ ? refused_ : to_error_code(result);
  // curl takes a head that breaks off for a short one.
  if (!ec && !head_complete_) ec = error::partial_response;
  try {
    fill(t.response_);
  } catch (...) {
    if (!ec) ec = errc::not_enough_memory;
  }
  // curl takes "HTTP/2 2" for a status line.
  if (!ec && (t.response_.status < 100 || t.response_.status > 999)) ec = error::weird_server_reply;
  return ec;
}

void easy_handle::fill(response& r) const {
  const auto number = [&](CURLINFO info) {
    long value = 0;
    curl_easy_getinfo(get(), info, &value);
    return static_cast<int>(value);
  };
  const auto time = [&](CURLINFO info) -> duration {
    curl_off_t value = 0;
    curl_easy_getinfo(get(), info, &value);
    return std::chrono::microseconds{value};
  };
  r.status = number(CURLINFO_RESPONSE_CODE);
  r.redirects = number(CURLINFO_REDIRECT_COUNT);
  r.reused = r.status != 0 && number(CURLINFO_NUM_CONNECTS) == 0;
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
  try {
    h.take_header_line({data, size});
  } catch (...) {
    h.refused_ = errc::not_enough_memory;
  }
  return h.refused_ ? 0 : size;
}

void easy_handle::take_header_line(std::string_view line) {
  headers& list = transfer_->response_.headers;
  // All hops and all interim responses together: a server may send of those without end.
  transfer_->header_bytes_ += line.size();
  if (transfer_->header_bytes_ > max_headers_) {
    refused_ = errc::too_large;
    return;
  }
  if (line.starts_with("HTTP/")) {
    list.clear();
    head_complete_ = false;
    return;
  }
  if (line == "\r\n" || line == "\n") {
    head_complete_ = true;
    return;
  }
  if (line.starts_with(' ') || line.starts_with('\t')) {
    if (const auto more = trim(line); !more.empty() && !list.empty()) {
      if (!list[list.size() - 1].value.empty()) list.append_to_last(" ");
      list.append_to_last(more);
    }
    return;
  }
  // Without a colon it is a name without a value.
  const auto colon = std::min(line.find(':'), line.size() - 1);
  list.add(trim(line.substr(0, colon)), trim(line.substr(colon + 1)));
}

std::size_t easy_handle::on_body(char* data, std::size_t, std::size_t size, void* self) noexcept {
  auto& h = *static_cast<easy_handle*>(self);
  response& r = h.transfer_->response_;
  if (size > h.max_body_ - r.body_size) {
    h.refused_ = errc::too_large;
    return size + 1;
  }
  try {
    if (h.transfer_->request_.keep_body) r.body.append(data, size);
    r.body_size += size;
  } catch (...) {
    h.refused_ = errc::not_enough_memory;
    return size + 1;
  }
  return size;
}

int easy_handle::on_connected(void* self, char*, char*, int, int) noexcept {
  static_cast<easy_handle*>(self)->transfer_->connected_ = true;
  return CURL_PREREQFUNC_OK;
}

}  // namespace canigo::http::detail
