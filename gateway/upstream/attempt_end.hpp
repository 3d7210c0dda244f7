#pragma once

#include <cstdint>

namespace canigo::gateway {

/// How one attempt to get a response from an upstream has ended.
enum class attempt_end : std::uint8_t {
  complete,           ///< the client has received the whole response
  put_back,           ///< a response came, but it was dropped; see response_sink::drops()
  unreachable,        ///< no connection could be opened; nothing was sent
  connect_timed_out,  ///< no connection was open within the time limit; nothing was sent
  forbidden,          ///< the upstream's name resolves to addresses that are not allowed
  loop,               ///< the upstream's name resolves to the gateway itself
  lost,               ///< the connection broke after the request was sent, before the first byte of a response
  first_byte_late,    ///< the first byte of a response did not come within the time limit
  bad_response,       ///< the upstream's bytes are not valid HTTP
  body_failed,        ///< the body of the client's request could not be read; see request_body::state()
  cut,                ///< the response broke off after the client had received its beginning
  outrun,             ///< another attempt for the same request answered first
  client_lost,        ///< the client disconnected
  client_stalled,     ///< the client accepted no byte of the response for too long
  idle,               ///< no byte moved through a tunnel for too long
  /// the client already had the head of an event stream, but the response is no event stream; see exchange::failed
  no_events,
};

}  // namespace canigo::gateway
