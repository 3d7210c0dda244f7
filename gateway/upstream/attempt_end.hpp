#pragma once

#include <cstdint>

namespace canigo::gateway {

/// How one attempt to get a response has ended.
enum class attempt_end : std::uint8_t {
  complete,           ///< the client has the whole response
  put_back,           ///< a response came that is not passed on; see response_sink::drops()
  unreachable,        ///< no connection; nothing was sent
  connect_timed_out,  ///< no connection in time; nothing was sent
  forbidden,          ///< the upstream's name leads to addresses that are not allowed
  loop,               ///< the upstream's name leads to the gateway itself
  lost,               ///< the connection broke after the request, before the first byte of a response
  first_byte_late,    ///< no response in time
  bad_response,       ///< the bytes that came are no HTTP
  body_failed,        ///< the client's body could not be read; see request_body::state()
  cut,                ///< the response broke off when the client already had its beginning
  outrun,             ///< another attempt for the same request has answered sooner
  client_lost,        ///< the client has left
  client_stalled,     ///< the client takes no byte of the response for too long
  idle,               ///< a tunnel in which nothing has moved for too long
  no_events,          ///< the client has the head of a stream of events, and the response is none; see exchange::failed
};

}  // namespace canigo::gateway
