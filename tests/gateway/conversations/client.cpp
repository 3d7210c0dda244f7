#include "client.hpp"

#include "body_text.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace conversations {
namespace {

constexpr auto longest = std::chrono::seconds{120};  // that a conversation may take, on a slow machine
constexpr std::size_t whole = 1000;                  // per mille

std::string chunks_of(choices& c, const std::string& body, bool is_flawed) {
  std::string text;
  const std::size_t usual = c.one_of<std::size_t>({1, 7, 100, 4096, 65536, 1 << 20});
  // Each byte a chunk of its own is enough for a few.
  const std::size_t most = std::max(usual, body.size() / 2000 + 1);
  const std::size_t flaw_at = is_flawed ? c.below(body.size()) : body.size();
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t n = std::min(most == usual ? c.between(1, most) : most, body.size() - at);
    char line[24];
    const int length = std::snprintf(line, sizeof line, c.percent(10) ? "%05zX" : "%zx", n);
    text.append(line, static_cast<std::size_t>(length));
    if (c.percent(10)) text += ";name=\"GET / HTTP/1.1\"";
    if (at <= flaw_at && flaw_at < at + n) text += "x";
    text += "\r\n" + body.substr(at, n) + "\r\n";
    at += n;
  }
  text += c.percent(5) ? "0;last\r\n" : "0\r\n";
  if (c.percent(10)) text += "X-Trailer: GET /plain/stolen/ HTTP/1.1\r\n";
  return text + "\r\n";
}

std::string head_of(const request_plan& r, const places& p) {
  using kind = request_plan::kind;
  using flaw = request_plan::flaw;
  const std::string there = "127.0.0.1:" + std::to_string(r.wrong == flaw::dead ? p.dead : p.upstream[0]);
  const std::string host = r.wrong == flaw::destination ? "127.0.0.2:80" : there;
  const std::string path = "/r/" + text_of(r.id);
  std::string text = r.method + " ";
  if (r.what == kind::tunnel) {
    text += host;
  } else if (r.what == kind::absolute) {
    text += "http://" + host + path;
  } else {
    text += "/" + std::string{r.wrong == flaw::route ? "nowhere" : upstreams[r.upstream].name} + path;
  }
  const bool is_proxy = r.what == kind::tunnel || r.what == kind::absolute;
  text += r.is_old ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n";
  text += "Host: " + (is_proxy ? host : "localhost") + "\r\nX-Said: " + r.said() + "\r\n";
  text += "Authorization: " + r.authorization() + "\r\n";
  if (r.tenant != anonymous_tenant) text += "X-Canigo-Key: " + key_of(r.tenant) + "\r\n";
  if (!r.longest_wait.empty()) text += "X-Canigo-Max-Wait: " + r.longest_wait + "\r\n";
  if (!r.priority.empty()) text += "X-Canigo-Priority: " + r.priority + "\r\n";
  if (r.has_key) text += "Idempotency-Key: " + text_of(r.id) + "\r\n";
  if (r.closes) text += "Connection: close\r\n";
  if (r.is_old && r.keeps_alive()) text += "Connection: keep-alive\r\n";
  if (r.what == kind::upgrade) text += "Connection: Upgrade\r\nUpgrade: websocket\r\n";
  if (r.frame == request_plan::framing::length) text += "Content-Length: " + std::to_string(r.size) + "\r\n";
  if (r.frame == request_plan::framing::chunked) text += "Transfer-Encoding: chunked\r\n";
  if (r.expects_continue) text += "Expect: 100-continue\r\n";
  if (r.wrong == flaw::expectation) text += "Expect: the best\r\n";
  return text + "\r\n";
}

}  // namespace

client::client(loop& l, model& m, std::shared_ptr<conversation_state> c, const places& p, SSL_CTX* security)
    : loop_{l},
      model_{m},
      state_{std::move(c)},
      plan_{state_->plan},
      places_{p},
      security_{security},
      random_{m.seed(), ~plan_.index},
      reader_{{[this](const message_head& h, message_reader::framing f) { return head_came(h, f); },
               [this](std::string_view b) { body_came(b); }, [this] { answer_ended(); }}} {}

void client::start() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const std::uint16_t port = plan_.is_forward ? places_.forward : plan_.is_tls ? places_.secure : places_.plain;
  if (plan_.read_pause > 0) {
    // A window below the size of a segment, which is 64 KiB on the loopback, stands still for ever longer times.
    const int little = 4096, segment = 536;
    ::setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (descriptor < 0) {
    model_.count("no descriptor for a client");
    return finish();
  }
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS) {
    ::close(descriptor);
    return finish();
  }
  wire_ = std::make_shared<wire>(loop_, descriptor, plan_.is_tls ? security_ : nullptr, false);
  // For the report of one that does not end; it goes with its wire.
  loop_.after(longest, [weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && !self->is_over_) {
      self->wrong("a conversation does not end",
                  "after " + self->last_answer_ + ", with " + std::to_string(self->answers_) + " whole answers to " +
                      std::to_string(self->begins_at_.size()) + " requests, " + std::to_string(self->body_at_) +
                      " bytes of the last one" + (self->reader_.is_inside() ? ", inside a message" : "") +
                      (self->wire_->is_all_gone() ? "" : ", not all sent"));
      self->has_left_ = true;
      self->wire_->reset();
      self->finish();
    }
  });
  wire_->start(
      true, [self = shared_from_this()](std::string_view bytes) { self->received(bytes); },
      [self = shared_from_this()](wire::ended how) { self->over(how); });
  send_next();
  if (plan_.how == conversation_plan::pace::pipelined)
    while (begins_at_.size() < plan_.requests.size() && !has_left_) send_next();
}

/// Hands the next request to the wire, if there is one.
void client::send_next() {
  if (begins_at_.size() == plan_.requests.size() || has_left_ || waits_to_continue_) return;
  const std::size_t number = begins_at_.size();
  const request_plan& r = plan_.requests[number];
  request_state& s = state_->requests[number];
  s.has_begun = true;
  s.begun_at = clock::now();
  begins_at_.push_back(queued_);
  const std::string head = head_of(r, places_);
  const bool waits = r.expects_continue && plan_.how != conversation_plan::pace::pipelined;
  waits_to_continue_ = waits;
  if (waits) {
    send_cut(head, false);
    loop_.after(milliseconds{60}, [weak = weak_from_this(), number] {
      if (const auto self = weak.lock()) self->send_body(number);
    });
    return;
  }
  std::string bytes = head;
  if (r.has_body()) {
    const std::string body = body_text{body_text::kind::requests, r.id, r.phase}.part(0, r.size);
    bytes += r.frame == request_plan::framing::chunked ? chunks_of(random_, body, r.wrong == request_plan::flaw::chunk)
                                                       : body;
  } else if (r.frame == request_plan::framing::chunked) {
    bytes += "0\r\n\r\n";
  }
  // Bytes of another protocol, which it sends before it knows whether it may.
  if (r.behind > 0 && r.what == request_plan::kind::tunnel) {
    bytes += inner_request();
  } else if (r.behind > 0) {
    bytes += body_text{body_text::kind::requests, r.id, r.phase}.part(0, r.behind);
  }
  send_cut(bytes, number + 1 == plan_.requests.size());
}

/// Of a request that has waited for leave to send it.
void client::send_body(std::size_t number) {
  if (!waits_to_continue_ || number + 1 != begins_at_.size() || has_left_) return;
  waits_to_continue_ = false;
  const request_plan& r = plan_.requests[number];
  const std::string body = body_text{body_text::kind::requests, r.id, r.phase}.part(0, r.size);
  send_cut(
      r.frame == request_plan::framing::chunked ? chunks_of(random_, body, r.wrong == request_plan::flaw::chunk) : body,
      number + 1 == plan_.requests.size());
  if (answers_ > number) send_next();
}

void client::send_cut(const std::string& text, bool is_last) {
  std::string bytes = text;
  const bool ends_inside = plan_.end != conversation_plan::ending::orderly && plan_.end_at < whole;
  // It breaks off in its last request, or in an earlier one.
  const bool breaks_here = ends_inside && (is_last || random_.percent(30));
  if (breaks_here) bytes.resize(bytes.size() * plan_.end_at / whole);
  queued_ += bytes.size();
  std::size_t at = 0;
  for (std::size_t i = 0; i < plan_.cuts && at < bytes.size(); ++i) {
    const std::size_t n = random_.percent(50) ? random_.below(std::min<std::size_t>(bytes.size() - at, 80) + 1)
                                              : random_.below(bytes.size() - at + 1);
    const bool pauses = plan_.longest_pause > 0 && random_.percent(50);
    wire_->send(bytes.substr(at, n),
                pauses ? wire::cut::pause : random_.one_of({wire::cut::segment, wire::cut::record}),
                milliseconds{random_.below(plan_.longest_pause + 1)});
    at += n;
  }
  wire_->send(bytes.substr(at));
  if (breaks_here) {
    has_left_ = true;
    leave_at_last();
  } else if (is_last && plan_.end != conversation_plan::ending::orderly) {
    has_left_ = true;
    loop_.after(milliseconds{plan_.end_at - std::min(plan_.end_at, whole)}, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->leave_at_last();
    });
  }
}

/// When all has gone out.
void client::leave_at_last() {
  if (is_over_) return;
  if (wire_->is_open() && !wire_->is_all_gone()) {
    loop_.after(milliseconds{1}, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->leave_at_last();
    });
    return;
  }
  leave();
}

void client::leave() {
  switch (plan_.end) {
    case conversation_plan::ending::half_close:
      wire_->end_sending();
      return;  // until the gateway ends it
    case conversation_plan::ending::stall:
      return;  // the same, by its limit
    case conversation_plan::ending::reset:
      wire_->reset();
      break;
    default:
      wire_->close();
      break;
  }
  finish();
}

bool client::is_begun(std::size_t number) { return number < begins_at_.size() && wire_->gone() > begins_at_[number]; }

/// What is wrong after that is so because of it.
void client::wrong(const std::string& kind, const std::string& what) {
  if (!std::exchange(is_wrong_, true)) model_.fail(kind, plan_.index, what);
}

void client::received(std::string_view bytes) {
  if (is_over_) return;
  if (is_last_) {
    wrong("bytes came after the last answer", "after " + last_answer_ + ": " + std::string{bytes.substr(0, 80)});
    return;
  }
  if (plan_.read_pause > 0) wire_->stop_reading(milliseconds{plan_.read_pause});
  if (!reader_.read(bytes)) {
    wrong("an answer can't be read", "after " + last_answer_ + ": " + reader_.wrong());
    has_left_ = true;
    wire_->reset();
    finish();
  }
}

message_reader::framing client::head_came(const message_head& head, message_reader::framing f) {
  status_ = head.status();
  body_at_ = 0;
  const std::string error = head.value_of("x-canigo-error").value_or("");
  const std::string name = std::to_string(status_) + (error.empty() ? "" : " " + error);
  behind_ = std::exchange(last_answer_, name + (error.empty() ? " of the upstream" : ""));
  if (!is_begun(answers_)) {
    const bool is_behind = answers_ > 0 && plan_.requests[last_answered()].behind > 0;
    wrong(
        (is_behind ? "bytes of another protocol were answered, behind " : "an answer that nobody asked for, behind ") +
            behind_,
        name);
    return f == message_reader::framing::until_end && status_ < 300 ? message_reader::framing::none : f;
  }
  const request_plan& r = plan_.requests[answers_];
  if (status_ < 200) {
    if (status_ != 100 || !r.expects_continue) wrong("an interim answer that nobody asked for", name);
    if (waits_to_continue_) {
      loop_.after(milliseconds{0}, [weak = weak_from_this(), number = answers_] {
        if (const auto self = weak.lock()) self->send_body(number);
      });
    }
    return message_reader::framing::none;
  }
  is_of_upstream_ = error.empty() && head.value_of("x-echo").has_value();
  model_.answered(state_->requests[answers_], head);
  const bool closes = head.value_of("connection") == "close";
  if (head.status() == 200 && r.what == request_plan::kind::tunnel && error.empty()) {
    become_tunnel();
    return message_reader::framing::none;
  }
  is_last_after_ = closes || (r.is_old && !r.keeps_alive());
  const bool may_go_on = !is_last_after_ && !waits_to_continue_ && begins_at_.size() == answers_ + 1;
  if (plan_.how == conversation_plan::pace::eager && may_go_on) {
    loop_.after(milliseconds{0}, [weak = weak_from_this(), number = answers_] {
      if (const auto self = weak.lock(); self && self->begins_at_.size() == number + 1) self->send_next();
    });
  }
  if (r.method == "HEAD" || status_ == 204 || status_ == 304) return message_reader::framing::none;
  if (f == message_reader::framing::until_end && !is_last_after_) wrong("an answer has no end", name);
  return f;
}

void client::body_came(std::string_view bytes) {
  if (is_of_upstream_ && answers_ < plan_.requests.size()) {
    const body_text text{body_text::kind::responses, plan_.requests[answers_].id, 0};
    if (!text.has(body_at_, bytes)) {
      wrong("the body of an answer is another one", last_answer_ + ": " + std::string{bytes.substr(0, 80)});
      is_of_upstream_ = false;
    }
  }
  body_at_ += bytes.size();
}

void client::answer_ended() {
  if (status_ < 200) return;
  ++answers_;
  if (is_last_after_) {
    is_last_ = true;
    return;
  }
  if (has_left_) return;
  const bool is_early = answers_ == begins_at_.size() && (waits_to_continue_ || !wire_->is_all_gone());
  if (is_early && !plan_.goes_on) {
    has_left_ = true;
    wire_->close();
    return finish();
  }
  if (answers_ < plan_.requests.size()) {
    if (begins_at_.size() <= answers_ && !waits_to_continue_) send_next();
    return;
  }
  linger();
}

/// Looks for a while whether more comes, when all that it has sent has gone out.
void client::linger() {
  loop_.after(milliseconds{plan_.lingers}, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->is_over_ || self->has_left_ || !self->wire_->is_open()) return;
    if (self->waits_to_continue_ || !self->wire_->is_all_gone()) return self->linger();
    self->has_left_ = true;
    self->wire_->close();
    self->finish();
  });
}

/// What it sends through a tunnel.
std::string client::inner_request() const {
  const request_plan& r = plan_.requests[begins_at_.size() - 1];
  return "GET http://127.0.0.1:" + std::to_string(places_.upstream[0]) + "/r/" + text_of(r.id) +
         " HTTP/1.1\r\nHost: x\r\nX-Said: " + r.said() + "\r\nAuthorization: " + r.authorization() + "\r\n\r\n";
}

void client::become_tunnel() {
  inner_ = std::make_unique<message_reader>(
      message_reader::user{[this](const message_head& h, message_reader::framing f) {
                             if (h.status() < 200) return message_reader::framing::none;
                             is_of_upstream_ = h.value_of("x-echo").has_value();
                             status_ = h.status();
                             body_at_ = 0;
                             model_.answered(state_->requests[answers_], h);
                             return status_ == 204 || status_ == 304 ? message_reader::framing::none : f;
                           },
                           [this](std::string_view b) { body_came(b); },
                           [this] {
                             if (status_ >= 200 && !has_left_) linger();
                           }});
  reader_.become([this](std::string_view bytes) {
    // What an upstream sends unasked through a tunnel is its client's to judge.
    if (!inner_->read(bytes)) has_left_ = true;
    if (has_left_ && wire_->is_open() && plan_.end == conversation_plan::ending::orderly) {
      wire_->reset();
      finish();
    }
  });
  if (plan_.requests[answers_].behind == 0 && !has_left_) wire_->send(inner_request());
}

/// The index of the request that the last answer belongs to. A broken gateway may give more answers than requests came.
std::size_t client::last_answered() const noexcept { return std::min(answers_, plan_.requests.size()) - 1; }

/// Whether the connection may end behind the last answer although that has not said so. The operator may have ended its
/// request at that moment; or it came before its upstream had the whole body, of which the upstream then took no more.
bool client::may_be_last() const {
  if (answers_ > 0 && model_.called_off.contains(state_->requests[last_answered()].number)) return true;
  if (answers_ == 0 || !plan_.requests[last_answered()].has_body()) return false;
  for (std::size_t attempt = 0; attempt < 4; ++attempt)
    if (plan_answer(model_.seed(), plan_.requests[last_answered()], attempt).begins != answer_plan::start::whole)
      return true;
  return false;
}

void client::over(wire::ended how) {
  if (is_over_) return;
  const bool is_whole = reader_.end();
  if (!has_left_ && !is_last_ && !model_.is_draining) {
    if (!is_whole) {
      model_.count("answers that broke off");
    } else if (answers_ < begins_at_.size() && inner_ == nullptr && !may_be_last()) {
      wrong(std::string{"a request was left unanswered: its connection was "} +
                (how == wire::ended::broken ? "reset" : "closed"),
            std::to_string(answers_) + " answers, the last one " + last_answer_);
    }
  }
  wire_->close();
  finish();
}

void client::finish() {
  if (std::exchange(is_over_, true)) return;
  model_.end(state_);
}

}  // namespace conversations
