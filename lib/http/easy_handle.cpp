#include "easy_handle.hpp"

#include "canigo/error.hpp"

#include "ascii_url.hpp"
#include "option_setter.hpp"
#include "request_check.hpp"
#include "text.hpp"

#include <asio/ip/tcp.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <utility>

// A function of OpenSSL. This library does not link OpenSSL, but curl may do so.
extern "C" [[gnu::weak]] int SSL_has_pending(const void* ssl);

namespace canigo::http::detail {
namespace {

/// The max number of bytes of an HTTP/2 body that are stored until the caller reads them. A part that would exceed this
/// number stays in curl.
constexpr std::size_t most_ahead = 4 * easy_handle::read_size;

// Rejects a URL without a scheme. curl would guess the scheme, so a typing error would cause a name look-up.
std::error_code check_scheme(std::string_view url) noexcept {
  if (starts_with_any_case(url, "http://") || starts_with_any_case(url, "https://")) return {};
  const auto scheme = url.substr(0, std::min(url.find("://"), url.size()));
  const bool has_scheme = scheme.size() < url.size() && is_token(scheme);
  return has_scheme ? error::unsupported_protocol : error::malformed_url;
}

/// Whether the fields contain "Connection: close". A request with this field is the last one of its connection (RFC
/// 9112, 9.6).
bool asks_to_close(const headers& all) noexcept {
  return std::ranges::any_of(all,
                             [](header h) { return same_text(h.name, "Connection") && has_element(h.value, "close"); });
}

}  // namespace

easy_handle* easy_handle::of(CURL* easy) noexcept {
  char* self = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &self);
  return reinterpret_cast<easy_handle*>(self);
}

/// Whether the TLS engine has bytes of the connection that curl has not read. curl 8.23 lets OpenSSL read up to 64 KiB
/// of a socket in one call. So OpenSSL may read, together with the end of a response, a record that belongs to no
/// request. Such a record is not in the socket any more; only the TLS engine shows it.
bool easy_handle::has_unread_tls() const noexcept {
  const curl_tlssessioninfo* tls = nullptr;
  if (curl_easy_getinfo(get(), CURLINFO_TLS_SSL_PTR, &tls) != CURLE_OK || tls == nullptr) return false;
  const bool is_openssl = tls->backend == CURLSSLBACKEND_OPENSSL && &SSL_has_pending != nullptr;
  return is_openssl && tls->internals != nullptr && SSL_has_pending(tls->internals) != 0;
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
  is_starved_ = is_spoiled_ = has_given_ = false;
  head_told_ = false;
  no_socket_ = {};
  has_opened_ = false;
  newest_socket_ = CURL_SOCKET_BAD;
  was_reached_ = false;
  local_port_ = 0;
  sent_hop_ = -1;
  sent_connects_ = 0;
  may_resend_ = is_idempotent(r.method) && !t.length_to_write();
  head_ = response_head{max_headers_};
  said_.front() = '\0';
  return {};
}

bool easy_handle::has_sent_all() const noexcept {
  curl_off_t sent = 0;
  return transfer_->connected_ && curl_easy_getinfo(get(), CURLINFO_SIZE_UPLOAD_T, &sent) == CURLE_OK &&
         static_cast<std::uint64_t>(sent) >= transfer_->request_.body.size();
}

void easy_handle::send_no_more() noexcept {
  may_resend_ = follows_ = false;
  curl_easy_setopt(get(), CURLOPT_FOLLOWLOCATION, 0L);
}

std::error_code easy_handle::resume() noexcept {
  // While the body has stored bytes that the caller has not read, curl may send, but it may receive only if must_read()
  // is true.
  const bool may_read = transfer_->ahead() == 0 || must_read();
  const bool is_waiting = (may_read && std::exchange(is_paused_, false)) || is_starved_;
  is_starved_ = false;
  if (!is_waiting) return {};
  const CURLcode result = curl_easy_pause(get(), may_read ? CURLPAUSE_CONT : CURLPAUSE_RECV);
  return refused_ ? *refused_ : reason(result);
}

std::error_code easy_handle::end(CURLcode result) noexcept {
  transfer& t = *transfer_;
  transfer_ = nullptr;
  t.easy_ = nullptr;
  // After CURLE_SEND_FAIL_REWIND, newer versions of curl try to restart the upload of each later request on this
  // handle. So the handle is not used again.
  is_worn_ = is_worn_ || result == CURLE_SEND_FAIL_REWIND;
  std::error_code ec = refused_ ? *refused_ : reason(result);
  // curl reports success for a response whose head is cut off, so this code reports the error.
  if (!ec && !head_.is_complete()) ec = error::partial_response;
  try {
    // If the transfer was aborted, `problem` already contains the reason, which is kept.
    if (t.response_.problem.empty()) t.response_.problem = problem(t, ec, result);
    fill(t.response_);
  } catch (...) {
    if (!ec) ec = errc::not_enough_memory;
  }
  return ec;
}

/// Called when curl waits for no socket of a paused transfer. Over HTTP/1 this means that the server has ended its
/// response and has closed the connection. Then curl sends no more of the request, and calls no callback to report
/// that. Over HTTP/2 nothing follows from this call, because the transfer may be waiting for other transfers of its
/// connection.
void easy_handle::waits_for_nothing() noexcept {
  if (transfer_ == nullptr || !is_paused_ || is_starved_) return;
  const int version = number(CURLINFO_HTTP_VERSION);
  if (version == CURL_HTTP_VERSION_1_0 || version == CURL_HTTP_VERSION_1_1) transfer_->sends_no_more();
}

void easy_handle::pause() noexcept {
  is_paused_ = true;  // set first, because curl may call waits_for_nothing() during the next statement
  is_paused_ = curl_easy_pause(get(), CURLPAUSE_RECV) == CURLE_OK;
  if (is_paused_) source_->paused(*this);
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

// curl calls the following functions, so they must not throw. A result other than `size` ends the transfer.

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
    if (h.refuses(size)) return CURL_WRITEFUNC_PAUSE;
    if (!h.take({data, size})) return size + 1;
  } catch (...) {
    h.refused_ = errc::not_enough_memory;
    return size + 1;
  }
  t.response_.body_size += size;
  if (t.has_room(read_size)) h.source_->took(size);
  return size;
}

std::size_t easy_handle::on_read(char* to, std::size_t, std::size_t room, void* self) noexcept {
  auto& h = *static_cast<easy_handle*>(self);
  if (h.is_spoiled_) return CURL_READFUNC_PAUSE;
  const auto size = h.transfer_->give(to, room);
  h.is_starved_ = !size;
  h.has_given_ = h.has_given_ || size.value_or(0) > 0;
  return size.value_or(CURL_READFUNC_PAUSE);
}

/// Called when curl must send the body again, over another connection. That is possible if curl has not got a byte of
/// the body yet.
int easy_handle::on_seek(void* self, curl_off_t offset, int) noexcept {
  return offset == 0 && !static_cast<easy_handle*>(self)->has_given_ ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

bool easy_handle::take(std::string_view part) {
  if (!transfer_->take(part, most_unread())) {
    refused_ = errc::too_large;
    is_body_too_large_ = true;
    return false;
  }
  // Stores this part and then pauses the transfer, instead of refusing the part. After a refusal curl would repeatedly
  // copy the bytes that it has already read. A newer curl also drops refused bytes when the connection breaks.
  if (transfer_->ahead() != 0 && !is_http2()) pause();
  return true;
}

/// Whether to refuse a part of the body of this size. Over HTTP/2, curl must continue to read the connection, for other
/// transfers. curl tells the server to pause this transfer only after a part was refused.
bool easy_handle::refuses(std::size_t size) noexcept {
  const std::size_t ahead = transfer_->ahead();
  if (ahead == 0 || ahead + size <= std::min(most_ahead, most_unread()) || !is_http2() || must_read()) return false;
  is_paused_ = true;
  source_->paused(*this);
  return true;
}

std::size_t easy_handle::most_unread() const noexcept {
  // If the body is not decoded, a part of it is no larger than one read of curl, and the transfer pauses after each
  // part. Storing such a part is always allowed, even if max_body_ is smaller than the part.
  return decodes_ || must_read() ? max_body_ : std::max(max_body_, most_ahead);
}

bool easy_handle::is_http2() const noexcept { return number(CURLINFO_HTTP_VERSION) >= CURL_HTTP_VERSION_2_0; }

bool easy_handle::must_read() const noexcept { return transfer_->is_writing() && is_http2(); }

bool easy_handle::is_final_head() const noexcept {
  // The head of a proxy's response comes before the request is sent, so it is not the final head.
  if (!head_.is_complete() || !was_sent_in_this_hop()) return false;
  const int status = number(CURLINFO_RESPONSE_CODE);
  constexpr int switching = 101, first_final = 200, first_redirect = 300, first_error = 400, expectation_failed = 417;
  if (status < first_final && status != switching) return false;
  const headers& fields = transfer_->response_.headers;
  if (follows_ && status >= first_redirect && status < first_error) return fields.find("Location").value_or("").empty();
  // After status 417 curl sends the request again without the field Expect, so this head is not final. If curl does not
  // send it again, the first part of the body or the end of the transfer shows that the head is final.
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
  // If the request was already sent, curl opens this socket to send it again.
  if (!h.may_resend_ && h.was_sent_in_this_hop()) {
    h.is_worn_ = true;
    h.refused_ = error::no_response;
    return CURL_SOCKET_BAD;
  }
  if (!h.may_connect(*address)) return CURL_SOCKET_BAD;
  const curl_socket_t fd = h.source_->open_socket(*address);
  h.newest_socket_ = fd;
  h.was_reached_ = false;
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

/// Whether curl may send the request over this connection. If a reused connection breaks before the first byte of the
/// answer, curl sends the request again, up to five times. But the server may have executed the request each time. So
/// this function allows only one repetition, and only for idempotent methods.
bool easy_handle::may_send(int local_port) noexcept {
  const int hop = number(CURLINFO_REDIRECT_COUNT);
  const auto was_redirected = [&] {
    const int status = number(CURLINFO_RESPONSE_CODE);
    return status >= 300 && status < 400;
  };
  const bool was_broken = hop == sent_hop_;
  // If the server rejects the field Expect, curl sends the request again, and counts that as a redirect.
  const bool is_again = was_broken || (sent_hop_ >= 0 && !was_redirected());
  is_worn_ = is_worn_ || is_again;
  is_spoiled_ = false;
  if (is_again && !may_resend_) {
    refused_ = was_broken ? make_error_code(error::no_response) : std::error_code{};
    return false;
  }
  // A request that is sent again must use a new connection.
  if (may_resend_) curl_easy_setopt(get(), CURLOPT_FRESH_CONNECT, 1L);
  const int connects = number(CURLINFO_NUM_CONNECTS);
  const bool is_reused = connects == sent_connects_;
  // spoil_if_unclean() shuts down an idle connection that has received bytes which belong to no response. Then curl
  // can't send over that connection, and takes another one.
  if (source_->spoil_if_unclean(local_port, is_reused && has_unread_tls())) {
    curl_easy_setopt(get(), CURLOPT_FRESH_CONNECT, 1L);
    is_worn_ = is_spoiled_ = true;
    return true;
  }
  // After a redirect curl may take another idle connection, which may be broken like the first one. If all idle
  // connections are shut down, curl makes a new one.
  if (was_broken && is_reused && source_->spoil_idle(local_port)) return true;
  if (is_again) {
    may_resend_ = false;
    ++transfer_->response_.resends;
  }
  sent_hop_ = hop;
  newest_socket_ = CURL_SOCKET_BAD;
  was_reached_ = false;
  sent_connects_ = connects;
  local_port_ = local_port;
  return true;
}

}  // namespace canigo::http::detail
