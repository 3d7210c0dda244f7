#include "upstream.hpp"

#include "body_text.hpp"
#include "wire.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace conversations {
namespace {

constexpr std::size_t little = 16 << 10;  // bytes that one write takes at once to the other side
constexpr std::size_t never = 10'000;     // ms

std::string chunked(choices& c, const std::string& body, answer_plan::spelling spelt) {
  std::string text;
  const std::size_t most = std::max<std::size_t>(c.one_of<std::size_t>({1, 50, 5000, 1 << 20}), body.size() / 500 + 1);
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t n = std::min(c.between(1, most), body.size() - at);
    char line[24];
    const int length = std::snprintf(line, sizeof line, "%zx", n);
    text.append(line, static_cast<std::size_t>(length));
    if (spelt == answer_plan::spelling::blank_behind_size) text += " ";
    if (spelt == answer_plan::spelling::size_of_letters && at + n == body.size()) text += "such";
    if (c.percent(5)) text += ";extension=1";
    text += "\r\n" + body.substr(at, n) + "\r\n";
    at += n;
  }
  text += spelt == answer_plan::spelling::size_of_letters ? "none\r\n" : "0\r\n";
  if (c.percent(10)) text += "X-Trailer: HTTP/1.1 200 OK\r\n";
  return text + "\r\n";
}

/// A connection of the gateway's.
class link : public std::enable_shared_from_this<link> {
 public:
  link(loop& l, model& m, std::size_t upstream, std::uint64_t number, int descriptor, SSL_CTX* security)
      : loop_{l},
        model_{m},
        upstream_{upstream},
        random_{m.seed() ^ 0x5a5a5a5a, number},
        wire_{std::make_shared<wire>(l, descriptor, security, true)},
        reader_{{[this](const message_head& h, message_reader::framing f) { return head_came(h, f); },
                 [this](std::string_view b) { body_came(b); }, [this] { request_ended(); }}} {}

  void start() {
    wire_->start(
        false, [self = shared_from_this()](std::string_view bytes) { self->received(bytes); },
        [self = shared_from_this()](wire::ended) { self->over(); });
    if (!random_.percent(1)) return;
    // It takes a connection, and reads nothing from it.
    wire_->stop_reading(milliseconds{-1});
    end_after(milliseconds{900}, true);
  }

 private:
  void received(std::string_view bytes) {
    if (reader_.read(bytes)) return;
    model_.fail("an upstream got what is no request", whose_ ? conversation_of(whose_->plan->id) : 0, reader_.wrong());
    wire_->reset();
  }

  message_reader::framing head_came(const message_head& head, message_reader::framing f) {
    if (plan_.spelt == answer_plan::spelling::size_of_letters && has_answered_ && has_spelt_) {
      model_.fail("a link was used again behind an answer that can't be read", 0, head.first_line);
    }
    ++number_;
    body_at_ = 0;
    has_answered_ = false;
    is_whole_ = false;
    if (is_answering_) {
      model_.fail("an upstream got a request before it had answered the one before", 0, head.first_line);
    }
    state_ = model_.arrived(upstream_, head, f, whose_);
    if (whose_ == nullptr) {
      wire_->send("HTTP/1.1 200 OK\r\nX-Echo: 0000000000000000\r\nContent-Length: 0\r\n\r\n");
      return f;
    }
    plan_ = plan_answer(model_.seed(), *whose_->plan, whose_->arrivals++);
    whose_->may_come_again = false;
    if (surplus_at_ != clock::time_point{}) {
      // It may have been on its way before the gateway could see the surplus. Then nothing can be told of its answer.
      if (!is_surplus_certain_ && whose_->begun_at <= surplus_at_) {
        whose_->may_get_surplus = true;
        model_.count("requests that met surplus bytes on their way");
      }
      model_.count("links with surplus bytes that were used again");
      end_after(milliseconds{5}, false);
      return f;
    }
    if (plan_.begins == answer_plan::start::head || (plan_.begins == answer_plan::start::part && plan_.at == 0))
      begin_answer();
    return f;
  }

  void body_came(std::string_view bytes) {
    if (whose_ == nullptr) return;
    const request_plan& p = *whose_->plan;
    if (body_at_ + bytes.size() > p.size || !body_text{body_text::kind::requests, p.id, p.phase}.has(body_at_, bytes)) {
      model_.fail("an upstream got another body", conversation_of(p.id),
                  "from " + std::to_string(body_at_) + ": " + std::string{bytes.substr(0, 80)});
      wire_->reset();
      return;
    }
    body_at_ += bytes.size();
    if (plan_.begins == answer_plan::start::part && body_at_ >= plan_.at && surplus_at_ == clock::time_point{})
      begin_answer();
  }

  void request_ended() {
    is_whole_ = true;
    if (whose_ == nullptr) return;
    if (body_at_ != whose_->plan->size && whose_->plan->has_body())
      model_.fail("an upstream got a part of a body as the whole", conversation_of(whose_->plan->id),
                  std::to_string(body_at_) + " of " + std::to_string(whose_->plan->size));
    if (surplus_at_ == clock::time_point{}) begin_answer();
  }

  /// Once for each request.
  void begin_answer() {
    if (std::exchange(has_answered_, true)) return;
    is_answering_ = true;
    if (plan_.reads_no_more && !is_whole_) {
      wire_->stop_reading(milliseconds{-1});
      end_after(milliseconds{700}, true);
    }
    if (plan_.delay >= never) return end_after(milliseconds{1000}, true);
    loop_.after(milliseconds{plan_.delay}, [weak = weak_from_this(), n = number_] {
      if (const auto self = weak.lock(); self && self->number_ == n && self->wire_->is_open()) self->answer();
    });
  }

  void answer() {
    const request_plan& p = *whose_->plan;
    const bool is_bodiless = p.method == "HEAD" || plan_.status == 204 || plan_.status == 304;
    std::string text;
    for (int i = 0; i < plan_.interim % 4; ++i)
      text += "HTTP/1.1 " + std::to_string(plan_.interim) + " Wait\r\nX-Echo: " + text_of(p.id) + "\r\n\r\n";
    const std::string body = body_text{body_text::kind::responses, p.id, 0}.part(0, plan_.size);
    using spelling = answer_plan::spelling;
    text += "HTTP/1.1 " + std::to_string(plan_.status) + (plan_.spelt == spelling::no_reason ? "" : " So it is") +
            "\r\nX-Echo: " + text_of(p.id) + "\r\nX-Said: " + p.said() + "\r\n";
    if (plan_.spelt != spelling::usual) text += "X-Spelt: oddly\r\n";
    if (plan_.asks_for_pause) text += "Retry-After: 0\r\n";
    const bool closes =
        plan_.end == answer_plan::ending::announce || (plan_.frame == answer_plan::framing::until_end && !is_bodiless);
    if (closes) text += "Connection: close\r\n";
    const bool has_length = plan_.frame == answer_plan::framing::length && plan_.status != 204;
    if (has_length) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    if (plan_.frame == answer_plan::framing::chunked && plan_.status != 204)
      text += plan_.spelt == spelling::coding_in_capitals ? "Transfer-Encoding: CHUNKED\r\n"
                                                          : "Transfer-Encoding: chunked\r\n";
    text += "\r\n";
    if (!is_bodiless) text += plan_.frame == answer_plan::framing::chunked ? chunked(random_, body, plan_.spelt) : body;
    has_spelt_ = !is_bodiless;
    const bool is_broken = plan_.breaks_at < 1000;
    if (is_broken) text.resize(text.size() * plan_.breaks_at / 1000);
    whose_->may_come_again = plan_.status == 429 || (plan_.status == 503 && plan_.asks_for_pause);
    is_answering_ = false;
    send(text, is_bodiless);
    if (is_broken) return end_after(milliseconds{plan_.ends_after}, plan_.end == answer_plan::ending::reset);
    if (closes) return end_after(milliseconds{plan_.ends_after}, false);
    if (plan_.end == answer_plan::ending::close || plan_.end == answer_plan::ending::reset)
      end_after(milliseconds{plan_.ends_after}, plan_.end == answer_plan::ending::reset);
  }

  void send(const std::string& text, bool is_bodiless) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < plan_.cuts && at < text.size(); ++i) {
      const std::size_t n = random_.below(std::min<std::size_t>(text.size() - at, random_.one_of({60u, 400'000u})) + 1);
      wire_->send(text.substr(at, n),
                  plan_.longest_pause > 0 ? wire::cut::pause : random_.one_of({wire::cut::segment, wire::cut::record}),
                  milliseconds{random_.below(plan_.longest_pause + 1)});
      at += n;
    }
    if (plan_.more == answer_plan::surplus::none || whose_->plan->what == request_plan::kind::tunnel) {
      wire_->send(text.substr(at));
      return;
    }
    // Bytes that nobody has asked for: a body where there is none, or an answer more.
    const std::uint64_t id = whose_->plan->id;
    const std::string more = is_bodiless && random_.percent(60)
                                 ? body_text{body_text::kind::responses, id, 0}.part(0, random_.between(67, 400))
                                 : "HTTP/1.1 200 OK\r\nX-Surplus: " + text_of(id) + "\r\nContent-Length: 3\r\n\r\nyes";
    model_.count("answers with surplus bytes");
    is_surplus_certain_ = plan_.more != answer_plan::surplus::later && text.size() + more.size() < little;
    switch (plan_.more) {
      case answer_plan::surplus::same_record:
        wire_->send(text.substr(at) + more);
        break;
      case answer_plan::surplus::same_write:
        wire_->send(text.substr(at), wire::cut::record);
        wire_->send(more);
        break;
      default:
        wire_->send(text.substr(at));
        wire_->send(more);
        break;
    }
    // What the kernel has not taken yet comes at any time.
    surplus_at_ = wire_->is_all_gone() ? clock::now() : clock::time_point::max();
    is_surplus_certain_ = is_surplus_certain_ && wire_->is_all_gone();
  }

  void end_after(milliseconds time, bool resets) {
    loop_.after(time, [weak = weak_from_this(), resets] {
      const auto self = weak.lock();
      if (!self) return;
      if (self->wire_->is_open() && !resets && !self->wire_->is_all_gone())
        return self->end_after(milliseconds{1}, false);
      if (resets) {
        self->wire_->reset();
      } else {
        self->wire_->close();
      }
    });
  }

  void over() { static_cast<void>(reader_.end()); }

  loop& loop_;
  model& model_;
  std::size_t upstream_;
  choices random_;
  std::shared_ptr<wire> wire_;
  message_reader reader_;
  std::uint64_t number_ = 0;  // of the request on this connection
  std::shared_ptr<conversation_state> state_;
  request_state* whose_ = nullptr;
  answer_plan plan_;
  std::size_t body_at_ = 0;
  bool is_whole_ = false;
  bool has_answered_ = false;
  bool is_answering_ = false;
  bool has_spelt_ = false;
  bool is_surplus_certain_ = false;
  clock::time_point surplus_at_{};  // when the bytes had gone out that nobody had asked for
};

/// Takes connections of one upstream.
class door : public loop::handler {
 public:
  door(loop& l, model& m, std::size_t upstream, int descriptor, SSL_CTX* security)
      : loop_{l}, model_{m}, upstream_{upstream}, descriptor_{descriptor}, security_{security} {}

  void ready(std::uint32_t) override {
    for (;;) {
      const int taken = ::accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (taken < 0) return;
      std::make_shared<link>(loop_, model_, upstream_, (upstream_ << 48) + ++count_, taken, security_)->start();
    }
  }

 private:
  loop& loop_;
  model& model_;
  std::size_t upstream_;
  int descriptor_;
  SSL_CTX* security_;
  std::uint64_t count_ = 0;
};

}  // namespace

upstream_servers::upstream_servers(loop& l, model& m, places& p, SSL_CTX* security) : loop_{l} {
  for (std::size_t i = 0; i < upstreams.size(); ++i) {
    const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s < 0) throw std::system_error{errno, std::system_category(), "socket"};
    listeners_.push_back(s);
    if (i % 2 == 0) {
      // A body that it does not read is not taken by the kernel for it.
      const int small = 8192, segment = 1460;
      ::setsockopt(s, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
      ::setsockopt(s, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
    }
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (::bind(s, reinterpret_cast<const sockaddr*>(&at), size) != 0 || ::listen(s, 1024) != 0 ||
        ::getsockname(s, reinterpret_cast<sockaddr*>(&at), &size) != 0)
      throw std::system_error{errno, std::system_category(), "listen"};
    p.upstream[i] = ntohs(at.sin_port);
    l.watch(s, EPOLLIN, std::make_shared<door>(l, m, i, s, upstreams[i].is_tls ? security : nullptr));
  }
}

upstream_servers::~upstream_servers() {
  for (const int s : listeners_) {
    loop_.forget(s);
    ::close(s);
  }
}

}  // namespace conversations
