#include "gateway/http/connection.hpp"

#include "canigo/error.hpp"

#include "gateway/admin/admin.hpp"
#include "gateway/admin/events.hpp"
#include "gateway/http/call.hpp"
#include "gateway/http/refusals.hpp"
#include "gateway/policy/destination.hpp"
#include "gateway/policy/fields.hpp"
#include "gateway/policy/head_rules.hpp"
#include "gateway/upstream/exchange.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <sys/socket.h>
#include <utility>

// No temporary that needs a destructor stands in a co_await here: g++ 12 may destroy it twice.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

// What an idle connection reads its next head into; it grows up to the bound of a head.
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

/// A target, or a Host, without the query, and without a user and a password.
std::string without_secrets(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (target.starts_with('/')) return std::string{target};
  const auto scheme = target.find("://");
  const std::size_t start = scheme == target.npos ? 0 : scheme + 3;
  const std::string_view authority = target.substr(start, target.find('/', start) - start);
  const auto at = authority.rfind('@');
  if (at == authority.npos) return std::string{target};
  return std::string{target.substr(0, start)}.append(target.substr(start + at + 1));
}

/// Whether nobody knows what the bytes behind such a request are.
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
    : service_{s}, loop_{l}, entrance_{e}, client_{std::move(socket)}, address_{std::move(address)} {
  loop_.connections.insert(this);
  if (entrance_.listener) service_.callers.fetch_add(1, std::memory_order_relaxed);
}

connection::~connection() {
  loop_.connections.erase(this);
  if (entrance_.listener) service_.callers.fetch_sub(1, std::memory_order_relaxed);
  entrance_.count.leave(address_);
}

net::awaitable<void> connection::run() {
  if (!co_await secure()) co_return;
  peer_uid_ = uid_of_peer(client_.descriptor());
  for (;;) {
    if (is_last() && has_served_ && !has_come()) break;
    phase_ = phase::idle;
    if (input_.empty()) input_.shrink(first_room);
    auto parser = message_parser::of_request(limits_of(loop_.now->settings));
    if (!co_await read_head(parser)) break;
    has_served_ = true;
    {
      const auto request = std::make_unique<call>(*this, parser);
      auto serving = request->serve();
      co_await std::move(serving);
    }
    if (!goes_on_after(parser)) break;
  }
  phase_ = phase::closing;
  departure_.reset();
  if (lingers_ && !has_left_) co_await client_.linger_and_close();
}

/// Makes the connection one of TLS, if its listener has a certificate. False: it has failed.
net::awaitable<bool> connection::secure() {
  const std::shared_ptr<const generation> g = loop_.now;
  net::ssl::context* certificate = entrance_.listener ? g->certificate(*entrance_.listener) : nullptr;
  if (certificate == nullptr) co_return true;
  error_code error;
  co_await client_.secure_as_server(*certificate, g->settings.time.header, error);
  if (error) co_return false;
  is_secured_ = true;
  certificate_names_ = client_.peer_names();
  co_return true;
}

/// False if there is no request: the client has gone, was too slow, or sent something else.
net::awaitable<bool> connection::read_head(message_parser& parser) {
  // Copies: the configuration may change while it waits.
  const time_limits time = loop_.now->settings.time;
  const std::uint64_t most = loop_.now->settings.size.header;
  time_point since = clock::now();
  for (;;) {
    while (!parser.has_begun() && input_.unread().size() >= 2 && input_.unread()[0] == '\r' &&
           input_.unread()[1] == '\n') {
      input_.consume(2);  // RFC 9112, 2.2: an empty line before a request
    }
    if (!input_.empty()) {
      if (std::exchange(phase_, phase::head) == phase::idle) since = clock::now();
      const auto step = parser.read(input_);
      if (parser.failure() != parse_failure::none) {
        call_record r = begin_record(parser.head());
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
    input_.commit(co_await client_.read_some(input_.prepare(room), left, error));
    if (!error) continue;
    if (error == errc::timed_out && phase_ == phase::head) {
      call_record r = begin_record(parser.head());
      const refusal why{408, "bad_request", "the head took longer than " + to_string(time.header)};
      co_await answer(why, r, nullptr);
    }
    co_return false;
  }
}

call_record connection::begin_record(const message_head& head) {
  call_record r;
  r.time = std::chrono::system_clock::now();
  r.since = clock::now();
  r.id = service_.new_request_id();
  r.method = head.method;
  r.host = without_secrets(value_of(head, "host").value_or(""));
  r.path = without_secrets(head.target);
  return r;
}

void connection::end_record(call_record& r) {
  service_.counts.count(loop_.index, r);
  service_.errors.note(r);
  service_.log.write(r);
}

net::awaitable<void> connection::write(std::string_view text) {
  std::array pieces{net::const_buffer{text.data(), text.size()}};
  error_code error;
  co_await client_.write(pieces, loop_.now->settings.time.write_stall, error);
  lingers_ = true;
  if (error) goes_on_ = lingers_ = false;
}

/// Whether another request is read behind this one. Nothing else decides it: what knows a reason why not clears
/// goes_on_, and one byte of this request that the client has not sent or nobody has read is enough to end it.
bool connection::goes_on_after(const message_parser& request) const noexcept { return goes_on_ && request.is_done(); }

/// Answers instead of an upstream, and ends the record. `parser`: of the request; null if it has no sound head.
net::awaitable<void> connection::answer(const refusal& why, call_record& r, const message_parser* parser) {
  if (parser == nullptr || !goes_on_after(*parser) || is_unsound(why) || is_last()) goes_on_ = false;
  r.status = why.status;
  r.error = why.error;
  texts_of(r).detail = why.detail;
  // Without a word on it a client of HTTP/1.0 takes the connection for closed.
  const auto says = !goes_on_                ? connection_field::close
                    : parser->version() < 11 ? connection_field::keep_alive
                                             : connection_field::none;
  const std::string text = problem(why, r, says, r.method == "HEAD");
  r.bytes_out = text.size() - (text.find("\r\n\r\n") + 4);
  co_await write(text);
  end_record(r);
}

net::awaitable<void> connection::serve_admin(const message_head& head) {
  phase_ = phase::running;
  auto answering = admin_answer(service_, head, !goes_on_);
  const admin_reply reply = co_await std::move(answering);
  if (!reply.begins_events) {
    co_await write(reply.text);
    co_return;
  }
  goes_on_ = false;
  auto sending = send_events(service_, client_, has_left_, [this, &head] { return is_still_admitted(service_, head); });
  co_await std::move(sending);
}

connection::listed::listed(connection& c, call_record& r) : home_{c} {
  c.tag_ = c.loop_.requests.enter(c);
  c.record_ = &r;
  c.ended_by_ = ender::nobody;
}

connection::listed::~listed() {
  home_.loop_.requests.leave(home_.tag_);
  home_.record_ = nullptr;
}

connection::watched::watched(connection& c) : home_{c} {
  if (!c.departure_) c.departure_.emplace(c.loop_.watch, c.client_.descriptor());
  c.departure_->tell([&c] { c.client_left(); });
}

request_view connection::look() const {
  const call_record& r = *record_;
  request_view v{.number = tag_,
                 .waits = waits(),
                 .waits_for = waits_for_,
                 .waits_until = sleeps_until_,
                 .id = r.id,
                 .tenant = std::string{r.tenant},
                 .priority = std::string{r.priority},
                 .upstream = std::string{r.upstream},
                 .method = shortened(r.method, 20),
                 .host = shortened(r.host),
                 .path = shortened(r.path),
                 .since = r.since,
                 .attempts = r.attempts,
                 .tokens = r.tokens_asked,
                 .first_byte = std::nullopt};
  if (exchange_ == nullptr) return v;
  if (exchange_->has_begun) v.status = exchange_->status;
  if (exchange_->first_byte) v.first_byte = *exchange_->first_byte - r.since;
  if (exchange_->body != nullptr) v.bytes_in = exchange_->body->bytes();
  v.bytes_out = exchange_->bytes_out;
  return v;
}

refusal connection::why_ended() const { return ended_by_ == ender::operator_ ? ended_by_operator() : ended_by_drain(); }

void connection::end_by(ender who) noexcept {
  if (ended_by_ == ender::nobody) ended_by_ = who;
  if (phase_ == phase::waiting) wait_.emit(net::cancellation_type::terminal);
  if (exchange_ != nullptr) exchange_->abort();
}

void connection::client_left() {
  has_left_ = true;
  goes_on_ = false;
  if (phase_ == phase::waiting) wait_.emit(net::cancellation_type::terminal);
  if (exchange_ != nullptr) exchange_->abort();
}

void connection::follow(const generation& next, const std::shared_ptr<void>& until_moved) noexcept {
  if (caller_ == nullptr) return;
  const upstream& to = caller_->queue.settings();
  const std::shared_ptr<upstream_queue> queue = next.queue_of(to.name);
  const auto tenant = next.tenant_of(caller_->tenant);
  // The host has come while the next hosts were made: it stays where it is.
  const bool is_new_host = queue == nullptr && is_host(to) && next.hosts() != nullptr && next.hosts()->allows(to.url);
  if (queue == nullptr && !is_new_host) {
    caller_->dismissed = std::make_unique<refusal>(
        refusal{503, "no_route", "the upstream is no longer in the configuration", std::chrono::seconds{1}});
  } else if (!tenant) {
    caller_->dismissed =
        std::make_unique<refusal>(refusal{401, "unauthorized", "the tenant is no longer in the configuration"});
  } else if (caller_->is_for_tunnel && next.settings.forward && next.settings.forward->tunnels == 0) {
    caller_->dismissed = std::make_unique<refusal>(refuse_tunnel());
  } else {
    auto share = queue == nullptr ? caller_->share : queue->share(*tenant);
    if (!share || share == caller_->share) return;
    caller_->next_share = std::move(share);
  }
  if (phase_ != phase::waiting) return;
  until_moved_ = until_moved;
  wait_.emit(net::cancellation_type::terminal);
}

/// Whether the client has begun another request. No read is on.
bool connection::has_come() {
  error_code error;
  if (input_.empty()) input_.commit(client_.read_now(input_.prepare(first_room), error));
  return !input_.empty();
}

/// Whether the drain lets this connection have no further request. The admin's stays until the end.
bool connection::is_last() const noexcept { return entrance_.listener && service_.is_draining(); }

void connection::drain() noexcept {
  if (!entrance_.listener) return;
  if (phase_ == phase::idle) {
    // The read that is on has emptied the engine of TLS: what has come lies in the socket.
    if (has_served_ && client_.is_socket_quiet()) client_.cancel();
    return;
  }
  goes_on_ = false;
  if (sleeps_until_ > service_.end()) wait_.emit(net::cancellation_type::terminal);
  if (exchange_ != nullptr) exchange_->keeps_client = false;
}

void connection::end_idle() noexcept {
  if (phase_ == phase::idle && entrance_.listener) client_.cancel();
}

void connection::finish() noexcept {
  if (!entrance_.listener) return;
  if (phase_ == phase::head) {
    cut();
  } else if (exchange_ != nullptr) {
    service_.has_cut = true;
    goes_on_ = false;
    end_by(ender::drain);
  } else if (phase_ == phase::waiting) {
    wait_.emit(net::cancellation_type::terminal);
  } else if (phase_ == phase::closing) {
    client_.cancel();
  } else {
    end_idle();
  }
}

void connection::give_up(const std::unordered_map<std::uint64_t, duration>& estimates, duration most) noexcept {
  if (phase_ != phase::waiting) return;
  const auto own = estimates.find(tag_);
  if (own == estimates.end()) return;
  if (own->second <= most && saturating_add(clock::now(), own->second) <= deadline_) return;
  wait_.emit(net::cancellation_type::terminal);
}

void connection::cut() noexcept {
  if (entrance_.listener && (phase_ == phase::running || phase_ == phase::head)) service_.has_cut = true;
  goes_on_ = lingers_ = false;
  end_by(ender::drain);
  client_left();
  client_.cancel();
}

}  // namespace canigo::gateway
