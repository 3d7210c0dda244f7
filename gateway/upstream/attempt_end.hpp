#pragma once

#include <cstdint>

namespace canigo::gateway {

/// How one attempt to get a response has ended.
enum class attempt_end : std::uint8_t {
  complete,           ///< the client has received the whole response
  put_back,           ///< a response came, but the sink dropped it; see response_sink::drops()
  unreachable,        ///< the connection failed; nothing was sent
  connect_timed_out,  ///< the connection took too long; nothing was sent
  forbidden,          ///< the upstream's name resolves to addresses that are not allowed
  loop,               ///< the upstream's name resolves to the gateway itself
  lost,               ///< the connection broke after the request, before the first byte of a response
  first_byte_late,    ///< the time limit for the first byte of a response passed
  bad_response,       ///< the upstream's bytes are not valid HTTP
  body_failed,        ///< the client's body could not be read; see request_body::state()
  cut,                ///< the response broke off after the client had received its beginning
  outrun,             ///< another attempt for the same request answered first
  client_lost,        ///< the client disconnected
  client_stalled,     ///< the client accepted no byte of the response for too long
  idle,               ///< no byte moved through a tunnel for too long
  no_events,  ///< the client has the head of an event stream, but the response is no event stream; see exchange::failed
};

}  // namespace canigo::gateway
