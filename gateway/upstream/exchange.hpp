#pragma once

#include "canigo/net.hpp"
#include "canigo/request.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"
#include "gateway/upstream/attempt_end.hpp"
#include "gateway/upstream/link.hpp"
#include "gateway/upstream/link_pool.hpp"
#include "gateway/upstream/response_sink.hpp"
#include "gateway/wire/byte_stream.hpp"
#include "gateway/wire/request_body.hpp"

#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// One request or tunnel on its way to an upstream and back. The call of the client owns it.
struct exchange {
  exchange(const upstream& u, const surroundings& s, byte_stream& c, response_sink& r)
      : up{&u}, around{s}, client{c}, sink{&r} {}

  // The following members describe the request. The objects to which they refer must outlive the exchange.
  const upstream* up;      ///< the upstream's settings for the target
  std::size_t target = 0;  ///< the index of the upstream's target that gets the request
  /// Keeps `up` and `pool` alive if they belong to a configuration that is newer than the call.
  std::shared_ptr<const void> home;
  link_pool* pool = nullptr;  ///< the pool of connections to the target
  const surroundings around;
  byte_stream& client;
  response_sink* sink;           ///< receives the response
  bool is_tls = false;           ///< whether the connection to the upstream must use TLS
  std::string head;              ///< the request's head, with the fields for its framing and the empty line at its end
  request_body* body = nullptr;  ///< the body of the request; null: it has no body
  bool is_chunked = false;       ///< whether the body is sent with chunked framing
  bool is_to_head = false;       ///< whether the method is HEAD; then the response has no body
  /// For a tunnel: the buffer with the bytes that the client has already sent. The exchange then sends no request. It
  /// sends these bytes and all further bytes from the client. Null: the exchange is not for a tunnel.
  read_buffer* tunnelled = nullptr;
  /// For a websocket handshake: the buffer with the bytes that the client has already sent. Once the websocket is open,
  /// these bytes are sent, followed by all further bytes from the client. Null: the request is no handshake.
  read_buffer* upgraded = nullptr;
  std::shared_ptr<scheduler> messages;  ///< the rate limit for websocket messages of clients; null: none
  request message_ask;                  ///< the request that each message makes to the limit `messages`
  int client_version = 11;
  /// Whether the client has already got the head of an event stream. If so, only the body of an event stream may be
  /// sent to the client.
  bool follows_events = false;
  duration write_stall{};
  std::string_view keep_alive_line;      ///< the line for a response after which the client's connection stays open
  time_point until = time_point::max();  ///< the deadline of the whole exchange

  /// Whether the request authenticates the connection over which it is sent. Such a connection serves no other request.
  bool signs_in_connection = false;

  // The exchange sets the following members.
  /// Before the attempt: whether the client's connection may stay open. After the attempt: whether the connection can
  /// stay open.
  bool keeps_client = true;
  std::string failure;            ///< why the connection failed, or the status of the response; empty: unknown
  std::string failed;             ///< after attempt_end::no_events: the beginning of the response's body
  bool lacks_descriptor = false;  ///< the connection failed because this process has no free file descriptor or memory
  int status = 0;
  bool has_begun = false;  ///< the client has received a byte of the response
  /// the upstream answered before it had received the whole request body, and did not receive the rest of the body
  bool has_lost_rest = false;
  duration connect_time{};
  std::optional<time_point> first_byte;
  std::uint64_t bytes_in = 0;   ///< the number of bytes that came from the client through a tunnel
  std::uint64_t bytes_out = 0;  ///< the number of bytes of the response's body, or of a tunnel, that went to the client

  /// The connection to the upstream during an attempt; null at other times. drop() cancels its operation.
  link* over = nullptr;
  bool is_aborted = false;
  exchange* beside = nullptr;  ///< the exchange of a concurrent second attempt for this request; null: there is none
  /// Returns the time from `now` until `limit` has passed since `since`, or until the deadline `until` if that is
  /// earlier. At least 1 ns.
  duration left_of(duration limit, time_point since, time_point now) const noexcept;
  /// Returns the time from now until `limit` has passed, or until the deadline `until` if that is earlier. At least
  /// 1 ns.
  duration left_of(duration limit) const noexcept;

  /// Makes the attempt end soon with attempt_end::client_lost. Does not touch the client's connection. Call it on the
  /// thread of the loop.
  void drop() noexcept;
  /// Makes all attempts for the request end soon, and cancels the operation on the client's connection.
  void abort() noexcept;
};

/// Makes one attempt of the exchange over the link `l`. Opens the link if it is not ready. After the attempt, closes
/// the link, unless it can serve another request.
net::awaitable<attempt_end> run_exchange(exchange& x, link& l);

}  // namespace canigo::gateway
