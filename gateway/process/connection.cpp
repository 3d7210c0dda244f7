#include "gateway/process/connection.hpp"

#include "canigo/error.hpp"

#include "gateway/call/answer.hpp"
#include "gateway/policy/head_rules.hpp"
#include "gateway/process/admin_handler.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <sys/socket.h>
#include <utility>

// g++ 12 may destroy a temporary of a co_await expression twice. So no such temporary in this file needs a destructor.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

// The initial size of a connection's read buffer, in bytes. It is small, because a connection may be idle. The buffer
// grows up to the size limit of a request's head.
constexpr std::size_t first_room = 2048;

parser_limits limits_of(const config& c) {
  return {.head = static_cast<std::uint32_t>(c.size.header), .body = c.size.body, .fields = c.size.fields};
}

std::optional<std::uint32_t> uid_of_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  sockaddr_storage own{};
  socklen_t own_size = sizeof own;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 || own.ss_family != AF_UNIX ||
      ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return std::nullopt;
  }
  return peer.uid;
}

/// Whether the end of the refused request is unknown. In that case the bytes that follow can't be parsed as another
/// request.
bool is_unsound(const refusal& why) noexcept { return why.status == 400 || why.status == 414; }

refusal refusal_of(parse_failure f) {
  switch (f) {
    case parse_failure::head_too_large:
      return {431, "bad_request", "the head is too large"};
    case parse_failure::target_too_large:
      return {414, "bad_request", "the target is too long"};
    case parse_failure::body_too_large:
      return {413, "bad_request", "the body is too large"};
    default:
      return {400, "bad_request", "this is no HTTP/1.1"};
  }
}

}  // namespace

connection::connection(service& s, loop& l, const entrance& e, stream_socket socket, std::string address)
    : service_{s}, loop_{l}, entrance_{e}, stream_{std::move(socket)} {
  client_.listener = e.listener.value_or(0);
  client_.address = std::move(address);
  loop_.connections.insert(this);
  if (entrance_.listener) service_.callers.fetch_add(1, std::memory_order_relaxed);
}

connection::~connection() {
  loop_.connections.erase(this);
  if (entrance_.listener) service_.callers.fetch_sub(1, std::memory_order_relaxed);
  entrance_.count.leave(client_.address);
}

net::awaitable<void> connection::run() {
  if (!co_await secure()) co_return;
  client_.uid = uid_of_peer(stream_.descriptor());
  for (;;) {
    if (is_last() && has_served_ && !has_come()) break;
    phase_ = phase::idle;
    if (input_.empty()) input_.shrink(first_room);
    auto parser = message_parser::of_request(limits_of(loop_.now->settings));
    if (!co_await read_head(parser)) break;
    has_served_ = true;
    goes_on_ = parser.keep_alive() && !is_last();
    phase_ = phase::request;
    call_host& self = *this;
    if (entrance_.listener) call_ = std::make_unique<call>(self, service_, loop_, parser);
    auto step = call_ ? call_->next_step(true) : serve_admin(parser);
    while (step.valid()) {
      const bool went_well = co_await std::move(step);
      step = call_ ? call_->next_step(went_well) : net::awaitable<bool>{};
    }
    call_.reset();
    if (!goes_on_after(parser)) break;
  }
  phase_ = phase::closing;
  watch_.reset();
  if (lingers_ && !has_left_) co_await stream_.linger_and_close();
}

/// Starts TLS if the listener has a certificate. Returns false if the TLS handshake has failed.
net::awaitable<bool> connection::secure() {
  const std::shared_ptr<const config_snapshot> g = loop_.now;
  net::ssl::context* certificate = entrance_.listener ? g->certificate(*entrance_.listener) : nullptr;
  if (certificate == nullptr) co_return true;
  error_code error;
  co_await stream_.secure_as_server(*certificate, g->settings.time.header, error);
  if (error) co_return false;
  client_.is_secured = true;
  client_.certificate_names = stream_.peer_names();
  co_return true;
}

/// Reads the head of a request. Returns false if the client has disconnected, was too slow, or sent an invalid head.
net::awaitable<bool> connection::read_head(message_parser& parser) {
  // The two settings are copied, because a reload may replace the configuration during the read.
  const time_limits time = loop_.now->settings.time;
  const std::uint64_t most = loop_.now->settings.size.header;
  time_point since = clock::now();
  for (;;) {
    while (!parser.has_begun() && input_.unread().size() >= 2 && input_.unread()[0] == '\r' &&
           input_.unread()[1] == '\n') {
      input_.consume(2);  // skips an empty line before the request (RFC 9112, 2.2)
    }
    if (!input_.empty()) {
      if (std::exchange(phase_, phase::head) == phase::idle) since = clock::now();
      const auto step = parser.read(input_);
      if (parser.failure() != parse_failure::none) {
        call_record r = begin_record(parser.head(), service_.new_request_id());
        const refusal why = refusal_of(parser.failure());
        co_await answer(why, r, nullptr);
        co_return false;
      }
      if (parser.has_head()) co_return true;
      if (!step.wants_more) continue;
    }
    const std::size_t room = std::min<std::size_t>(std::max(2 * input_.size(), first_room), most);
    error_code error;
    const duration limit = phase_ == phase::idle && has_served_ ? time.keep_alive : time.header;
    const duration left = std::max(limit - (clock::now() - since), duration{1});
    input_.commit(co_await stream_.read_some(input_.prepare(room), left, error));
    if (!error) continue;
    if (error == errc::timed_out && phase_ == phase::head) {
      call_record r = begin_record(parser.head(), service_.new_request_id());
      const refusal why{408, "bad_request", "the head took longer than " + to_string(time.header)};
      co_await answer(why, r, nullptr);
    }
    co_return false;
  }
}

void connection::end_record(call_record& r) {
  service_.counts.count(loop_.index, r);
  service_.errors.note(r);
  service_.log.write(r);
}

net::awaitable<void> connection::write(std::string_view text) {
  std::array pieces{net::const_buffer{text.data(), text.size()}};
  error_code error;
  co_await stream_.write(pieces, loop_.now->settings.time.write_stall, error);
  lingers_ = true;
  if (error) goes_on_ = lingers_ = false;
}

/// Whether the connection reads another request after `request`. Returns false if goes_on_ was cleared, or if a byte of
/// `request` is unread.
bool connection::goes_on_after(const message_parser& request) const noexcept { return goes_on_ && request.is_done(); }

net::awaitable<void> connection::answer(const refusal& why, call_record& r, const message_parser* request) {
  if (request == nullptr || !goes_on_after(*request) || is_unsound(why) || is_last()) goes_on_ = false;
  r.status = why.status;
  r.error = why.error;
  texts_of(r).detail = why.detail;
  // A client of HTTP/1.0 expects the connection to close, unless a Connection field says otherwise.
  std::string says = "Connection: close\r\n";
  if (goes_on_) {
    says = request->version() < 11 ? "Connection: keep-alive\r\n" : "";
    says += loop_.now->keep_alive_line;
  }
  const std::string text = problem(why, r, says, r.method == "HEAD");
  r.bytes_out = text.size() - (text.find("\r\n\r\n") + 4);
  co_await write(text);
  end_record(r);
}

net::awaitable<bool> connection::serve_admin(message_parser& parser) {
  const message_head head = parser.take_head();
  if (may_leave_http(head)) goes_on_ = false;
  head_judgement judged = judge_head(head, listen_mode::reverse, loop_.now->settings.size);
  if (judged.refused) {
    call_record r = begin_record(head, service_.new_request_id());
    auto refusing = answer(*judged.refused, r, &parser);
    co_await std::move(refusing);
    co_return false;
  }
  goes_on_ = goes_on_after(parser);
  auto answering = service_.admin->answer(service_, head, !goes_on_);
  const admin_reply reply = co_await std::move(answering);
  if (!reply.begins_events) {
    auto writing = write(reply.text);
    co_await std::move(writing);
    co_return false;
  }
  goes_on_ = false;
  auto sending = service_.admin->send_events(
      service_, stream_, has_left_, [this, &head] { return service_.admin->is_still_admitted(service_, head); });
  co_await std::move(sending);
  co_return false;
}

void connection::watch_client() {
  if (!watch_) watch_.emplace(loop_.watch, stream_.descriptor());
  watch_->tell(*this);
}

void connection::unwatch_client() noexcept {
  if (watch_) watch_->tell_no_more();
}

/// Called when the client has disconnected, and when the gateway itself cuts the connection. Ends the client's current
/// call.
void connection::peer_left() noexcept {
  has_left_ = true;
  goes_on_ = false;
  if (call_) call_->end_by_client();
}

/// Whether bytes of another request have come from the client. Precondition: no read is running.
bool connection::has_come() {
  error_code error;
  if (input_.empty()) input_.commit(stream_.read_now(input_.prepare(first_room), error));
  return !input_.empty();
}

/// Whether a drain forbids further requests on this connection. On a connection to the admin interface, the client may
/// send requests until the drain ends.
bool connection::is_last() const noexcept { return entrance_.listener && service_.is_draining(); }

void connection::drain() noexcept {
  if (!entrance_.listener) return;
  if (phase_ == phase::idle) {
    // The pending read has taken all bytes from the TLS engine. So if the socket holds no byte, the client has sent
    // nothing more.
    if (has_served_ && stream_.is_socket_quiet()) stream_.cancel();
    return;
  }
  goes_on_ = false;
  if (call_) call_->drain(service_.end());
}

void connection::end_idle() noexcept {
  if (phase_ == phase::idle && entrance_.listener) stream_.cancel();
}

void connection::end_wait() noexcept {
  if (entrance_.listener && call_ && call_->waits()) call_->wake();
}

void connection::finish() noexcept {
  if (!entrance_.listener) return;
  if (phase_ == phase::idle) {
    end_idle();
  } else if (phase_ == phase::closing) {
    stream_.cancel();
  } else if (call_ && call_->is_running()) {
    service_.has_cut = true;
    goes_on_ = false;
    call_->end_by(call_ender::drain);
  } else if (call_ && call_->waits()) {
    call_->wake();
  } else if (!call_ || !call_->has_asked()) {
    cut();
  }
}

void connection::cut() noexcept {
  const bool is_on = phase_ == phase::head || (call_ && !call_->waits());
  if (entrance_.listener && is_on) service_.has_cut = true;
  goes_on_ = lingers_ = false;
  if (call_) call_->end_by(call_ender::drain);
  peer_left();
  stream_.cancel();
}

}  // namespace canigo::gateway
