#pragma once

#include "gateway/wire/message.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Takes the response of an exchange, and decides whether the client gets it. Threads: that of the exchange's loop.
class response_sink {
 public:
  response_sink() = default;
  response_sink(const response_sink&) = delete;
  response_sink& operator=(const response_sink&) = delete;
  virtual ~response_sink() = default;

  /// Called first for each response, when its head has come. `body`: the part that was read, if the response is a
  /// refusal whose body names limits; else empty. `target`: the target of the upstream that answers. Returns true if
  /// the response refuses a quota that is used up for long. Such a response holds up only calls that need the quota.
  virtual bool see_head(const message_head& h, std::string_view body, std::size_t target) = 0;
  /// Whether the response is dropped because the request will be sent again. Called only while a retry is possible.
  virtual bool drops(const message_head& h, std::string_view body, std::size_t target) = 0;
  /// Whether the client gets this response. If not, it gets the response of another attempt.
  virtual bool may_answer() = 0;
  /// The head for the client: status line and fields, without framing, Connection and the empty line.
  virtual std::string head_for_client(const message_head& h) = 0;
  /// Called with each piece of the response's body, before the piece goes to the client.
  virtual void see_piece(std::string_view piece) = 0;
  /// Called before the client is told that its tunnel is open.
  virtual void begin_tunnel() = 0;
  /// Watches whether the client of a tunnel leaves, while nothing of it is read. If it does, the exchange is aborted.
  virtual void watch_client(bool is_on) = 0;
};

}  // namespace canigo::gateway
