#pragma once

#include "gateway/wire/message.hpp"

#include <string>
#include <string_view>

namespace canigo::gateway {

/// Takes the response of an exchange, and decides whether the client gets it. On the exchange's loop.
class response_sink {
 public:
  response_sink() = default;
  response_sink(const response_sink&) = delete;
  response_sink& operator=(const response_sink&) = delete;
  virtual ~response_sink() = default;

  /// Called first, when the head of a response has come, whatever becomes of the response. `body`: of a refusal whose
  /// body tells of limits, the part that was read; else empty. Returns whether it refuses a quota that is used up for
  /// long, which pauses no other call.
  virtual bool see_head(const message_head& h, std::string_view body) = 0;
  /// Whether the response is dropped, because the request will be sent again. Asked only while that is possible.
  virtual bool drops(const message_head& h, std::string_view body) = 0;
  /// Whether the response goes to the client. If not, that of another attempt does.
  virtual bool may_answer() = 0;
  /// The head for the client: status line and fields, without framing, Connection and the empty line.
  virtual std::string head_for_client(const message_head& h) = 0;
  /// Called with each piece of the response's body, before the piece goes to the client.
  virtual void see_piece(std::string_view piece) = 0;
  /// Called before a tunnel opens: the client is told so next.
  virtual void begin_tunnel() = 0;
};

}  // namespace canigo::gateway
