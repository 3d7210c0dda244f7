#include "wire.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>

#include <array>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace conversations {
namespace {

constexpr std::size_t most_raw = 256 << 10;  // bytes that have left their part, and not the process

}  // namespace

wire::wire(loop& l, int descriptor, SSL_CTX* security, bool is_server) : loop_{l}, descriptor_{descriptor} {
  const int yes = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (security == nullptr) return;
  tls_ = SSL_new(security);
  SSL_set_bio(tls_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  if (is_server) {
    SSL_set_accept_state(tls_);
  } else {
    SSL_set_connect_state(tls_);
  }
}

wire::~wire() {
  if (descriptor_ >= 0) ::close(descriptor_);
  SSL_free(tls_);
}

void wire::start(bool is_connecting, std::function<void(std::string_view)> received, std::function<void(ended)> over) {
  received_ = std::move(received);
  over_ = std::move(over);
  is_connecting_ = is_connecting;
  events_ = EPOLLIN | (is_connecting ? std::uint32_t{EPOLLOUT} : 0);
  loop_.watch(descriptor_, events_, shared_from_this());
  if (!is_connecting) write();
}

void wire::send(std::string bytes, cut after, milliseconds pause) {
  if (descriptor_ < 0 || is_last_) return;
  parts_.push_back({std::move(bytes), after, pause});
  if (!is_connecting_) write();
}

void wire::stop_reading(milliseconds time) {
  if (descriptor_ < 0) return;
  is_reading_ = false;
  settle_events();
  if (time < milliseconds{0}) return;
  loop_.after(time, [weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && self->descriptor_ >= 0) {
      self->is_reading_ = true;
      self->settle_events();
    }
  });
}

void wire::end_sending() {
  is_last_ = true;
  if (!is_connecting_) write();
}

void wire::close() {
  if (descriptor_ < 0) return;
  if (!is_connecting_ && !is_paused_) write();
  if (descriptor_ < 0) return;
  if (tls_ != nullptr && is_shaken_ && parts_.empty()) {
    SSL_shutdown(tls_);
    collect();
    flush();
  }
  drop();
}

void wire::reset() {
  if (descriptor_ < 0) return;
  const linger now{1, 0};
  ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  drop();
}

void wire::drop() {
  if (descriptor_ < 0) return;
  const std::shared_ptr<wire> self = shared_from_this();
  loop_.forget(descriptor_);
  ::close(std::exchange(descriptor_, -1));
  parts_.clear();
  raw_.clear();
  // They may be running.
  loop_.after(milliseconds{0}, [a = std::move(received_), b = std::move(over_)] {});
  received_ = nullptr;
  over_ = nullptr;
}

void wire::end(ended how) {
  const auto over = over_;
  drop();
  if (over) over(how);
}

void wire::ready(std::uint32_t events) {
  const std::shared_ptr<wire> self = shared_from_this();
  if (is_connecting_ && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return end(ended::broken);
    is_connecting_ = false;
  }
  if ((events & EPOLLOUT) != 0) write();
  if (descriptor_ < 0) return;
  if (!is_reading_ && (events & (EPOLLERR | EPOLLHUP)) != 0) return end(ended::broken);
  if (is_reading_ && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) read();
  if (descriptor_ >= 0) settle_events();
}

void wire::read() {
  std::array<char, 64 << 10> bytes;
  const auto n = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (n < 0) return end(ended::broken);
  if (n == 0) return end(ended::orderly);
  const std::string_view got{bytes.data(), static_cast<std::size_t>(n)};
  if (tls_ == nullptr) return take(got);
  BIO_write(SSL_get_rbio(tls_), got.data(), static_cast<int>(got.size()));
  if (!shake_hands()) return;
  std::array<char, 32 << 10> plain;
  for (;;) {
    ERR_clear_error();
    const int some = SSL_read(tls_, plain.data(), static_cast<int>(plain.size()));
    if (some <= 0) {
      const int why = SSL_get_error(tls_, some);
      collect();
      if (why == SSL_ERROR_ZERO_RETURN) return end(ended::orderly);
      if (why != SSL_ERROR_WANT_READ) return end(ended::broken);
      return write();
    }
    take({plain.data(), static_cast<std::size_t>(some)});
    if (descriptor_ < 0) return;
  }
}

void wire::take(std::string_view bytes) {
  const auto received = received_;
  if (received) received(bytes);
}

/// False: not yet, or never.
bool wire::shake_hands() {
  if (is_shaken_) return true;
  ERR_clear_error();
  const int n = SSL_do_handshake(tls_);
  collect();
  if (n == 1) {
    is_shaken_ = true;
    write();
    return descriptor_ >= 0;
  }
  if (SSL_get_error(tls_, n) != SSL_ERROR_WANT_READ) {
    end(ended::broken);
    return false;
  }
  flush();
  return false;
}

/// What TLS wants to send.
void wire::collect() {
  char* data = nullptr;
  BIO* const from = SSL_get_wbio(tls_);
  const long size = BIO_get_mem_data(from, &data);
  if (size > 0) raw_.append(data, static_cast<std::size_t>(size));
  static_cast<void>(BIO_reset(from));
}

void wire::write() {
  if (descriptor_ < 0 || is_connecting_) return;
  if (tls_ != nullptr && !is_shaken_ && !shake_hands()) return settle_events();
  if (descriptor_ < 0) return;
  bool is_open = is_held_ || flush();
  while (is_open && !is_paused_ && !parts_.empty()) {
    part p = std::move(parts_.front());
    parts_.pop_front();
    gone_ += p.bytes.size();
    if (tls_ == nullptr) {
      raw_ += p.bytes;
    } else {
      for (std::size_t at = 0; at < p.bytes.size();) {
        const int n =
            SSL_write(tls_, p.bytes.data() + at, static_cast<int>(std::min<std::size_t>(p.bytes.size() - at, 1 << 20)));
        if (n <= 0) return end(ended::broken);
        at += static_cast<std::size_t>(n);
      }
      collect();
    }
    if (p.after == cut::pause) {
      is_paused_ = true;
      loop_.after(p.pause, [weak = weak_from_this()] {
        if (const auto self = weak.lock(); self && self->descriptor_ >= 0) {
          self->is_paused_ = false;
          self->write();
        }
      });
    }
    is_held_ = (p.after == cut::none || p.after == cut::record) && raw_.size() <= most_raw;
    if (!is_held_) is_open = flush();
  }
  if (descriptor_ < 0) return;
  if (is_last_ && parts_.empty() && raw_.empty() && !std::exchange(has_ended_sending_, true)) {
    if (tls_ != nullptr) {
      SSL_shutdown(tls_);
      collect();
      flush();
      if (descriptor_ < 0) return;
    }
    ::shutdown(descriptor_, SHUT_WR);
  }
  settle_events();
}

/// False: some of it is left.
bool wire::flush() {
  while (raw_gone_ < raw_.size()) {
    const auto n = ::send(descriptor_, raw_.data() + raw_gone_, raw_.size() - raw_gone_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (n < 0) {
      // What the peer has sent before it broke off is to be read.
      parts_.clear();
      raw_.clear();
      raw_gone_ = 0;
      is_last_ = true;
      return false;
    }
    raw_gone_ += static_cast<std::size_t>(n);
  }
  raw_.clear();
  raw_gone_ = 0;
  return true;
}

void wire::settle_events() {
  if (descriptor_ < 0) return;
  const std::uint32_t wanted = (is_reading_ ? std::uint32_t{EPOLLIN} : 0) |
                               (is_connecting_ || (!is_held_ && !raw_.empty()) ? std::uint32_t{EPOLLOUT} : 0);
  if (wanted != std::exchange(events_, wanted)) loop_.change(descriptor_, wanted);
}

}  // namespace conversations
