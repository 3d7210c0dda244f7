#pragma once

#include "loop.hpp"

#include <openssl/ssl.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace conversations {

/// A connection of TCP, with or without TLS, whose writes are cut where its user wants.
class wire : public loop::handler, public std::enable_shared_from_this<wire> {
 public:
  /// What follows some bytes, before those behind them. What is to be in one write waits for its rest.
  enum class cut : std::uint8_t {
    none,     // the next bytes are in the same write
    record,   // they are in another record of TLS, and in the same write
    segment,  // they are in another write
    pause,    // they are in another write, and wait for a while
  };
  enum class ended : std::uint8_t { orderly, broken };

  /// `security`: null for plain TCP.
  wire(loop& l, int descriptor, SSL_CTX* security, bool is_server);
  ~wire() override;
  wire(const wire&) = delete;
  wire& operator=(const wire&) = delete;

  /// Begins; `received` gets bytes, and `over` is called once, when the peer has ended.
  void start(bool is_connecting, std::function<void(std::string_view)> received, std::function<void(ended)> over);

  void send(std::string bytes, cut after = cut::segment, milliseconds pause = {});
  /// How many of the bytes have gone out.
  std::size_t gone() const noexcept { return gone_; }
  bool is_all_gone() const noexcept { return parts_.empty() && raw_.empty(); }

  /// Reads nothing for this long. A negative time is for ever.
  void stop_reading(milliseconds time);

  /// Sends what waits to be sent, and then no more.
  void end_sending();
  /// Sends what waits to be sent if it can be sent at once, and ends.
  void close();
  /// Ends, and the peer gets an error.
  void reset();
  bool is_open() const noexcept { return descriptor_ >= 0; }

  void ready(std::uint32_t events) override;

 private:
  struct part {
    std::string bytes;
    cut after;
    milliseconds pause;
  };

  void read();
  void take(std::string_view bytes);
  bool shake_hands();
  void write();
  void collect();
  bool flush();
  void settle_events();
  void end(ended how);
  void drop();

  loop& loop_;
  int descriptor_;
  SSL* tls_ = nullptr;
  bool is_shaken_ = false;
  bool is_connecting_ = false;
  bool is_reading_ = true;
  bool is_paused_ = false;
  bool is_held_ = false;  // what waits to be sent waits for the rest of its write
  bool is_last_ = false;  // nothing follows what waits to be sent
  bool has_ended_sending_ = false;
  std::uint32_t events_ = 0;
  std::deque<part> parts_;
  std::string raw_;
  std::size_t raw_gone_ = 0;
  std::size_t gone_ = 0;
  std::function<void(std::string_view)> received_;
  std::function<void(ended)> over_;
};

}  // namespace conversations
