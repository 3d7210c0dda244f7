#pragma once

#include "gateway/wire/message.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Receives the response of an exchange, and decides whether the client gets it. Threads: only the thread of the
/// exchange's loop.
class response_sink {
 public:
  response_sink() = default;
  response_sink(const response_sink&) = delete;
  response_sink& operator=(const response_sink&) = delete;
  virtual ~response_sink() = default;

  /// Called first for each response, with its head. `body`: the beginning of the body if the response is a refusal
  /// whose body may report limits; otherwise empty. `target`: the index of the upstream's target that answered. Returns
  /// true if the response says that a quota is used up for a long time. In that case the caller must not let the
  /// response affect calls that do not need this quota.
  virtual bool see_head(const message_head& h, std::string_view body, std::size_t target) = 0;
  /// Returns whether to drop the response, because the request will be sent again. Called only while a retry is
  /// possible.
  virtual bool drops(const message_head& h, std::string_view body, std::size_t target) = 0;
  /// Returns whether the client gets this response. If not, the client gets the response of a concurrent attempt.
  virtual bool may_answer() = 0;
  /// Returns the head for the client: the status line and the fields, without framing, Connection field and empty line.
  virtual std::string head_for_client(const message_head& h) = 0;
  /// Called with each piece of the response's body before the piece is sent to the client.
  virtual void see_piece(std::string_view piece) = 0;
  /// Called before the client is told that its tunnel is open.
  virtual void begin_tunnel() = 0;
  /// Called with true when a tunnel stops reading from the client for a while, and with false when it reads again. In
  /// between, the sink must watch whether the client disconnects, and abort the exchange if it does.
  virtual void watch_client(bool is_on) = 0;
};

}  // namespace canigo::gateway
