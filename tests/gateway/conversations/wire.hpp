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

/// A TCP connection, with or without TLS. Its user determines where writes are split.
class wire : public loop::handler, public std::enable_shared_from_this<wire> {
 public:
  /// What separates some bytes from those after them. Bytes for the same write wait until the write is complete.
  enum class cut : std::uint8_t {
    none,     // the next bytes are in the same write
    record,   // the next bytes are in another TLS record, but in the same write
    segment,  // the next bytes are in another write
    pause,    // the next bytes are in another write, after a pause
  };
  enum class ended : std::uint8_t { orderly, broken };

  /// `security`: null for a connection without TLS.
  wire(loop& l, int descriptor, SSL_CTX* security, bool is_server);
  ~wire() override;
  wire(const wire&) = delete;
  wire& operator=(const wire&) = delete;

  /// Starts the connection. `received` gets the bytes. `over` is called once, when the peer has ended the connection.
  void start(bool is_connecting, std::function<void(std::string_view)> received, std::function<void(ended)> over);

  void send(std::string bytes, cut after = cut::segment, milliseconds pause = {});
  /// The number of bytes that were sent.
  std::size_t gone() const noexcept { return gone_; }
  bool is_all_gone() const noexcept { return parts_.empty() && raw_.empty(); }

  /// Reads nothing for this time. A negative time means for ever.
  void stop_reading(milliseconds time);

  /// Sends the waiting bytes, and then ends the sending side.
  void end_sending();
  /// Sends the waiting bytes if that is possible at once, and closes.
  void close();
  /// Closes with a reset, so that the peer gets an error.
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
  bool is_held_ = false;  // whether the waiting bytes wait for the rest of their write
  bool is_last_ = false;  // whether the waiting bytes are the last ones
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
