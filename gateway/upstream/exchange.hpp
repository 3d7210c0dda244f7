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

/// One request or tunnel on its way to an upstream and back. The client's connection owns it.
struct exchange {
  exchange(const upstream& u, const surroundings& s, byte_stream& c, response_sink& r)
      : up{&u}, around{s}, client{c}, sink{&r} {}

  // The request. The objects to which it refers must outlive the exchange.
  const upstream* up;      ///< the upstream's settings for the target
  std::size_t target = 0;  ///< the index of the upstream's target that gets the request
  /// Keeps `up` and `pool` alive, if they belong to a newer configuration than the call.
  std::shared_ptr<const void> home;
  link_pool* pool = nullptr;  ///< the connections to the target
  const surroundings around;
  byte_stream& client;
  response_sink* sink;           ///< receives the response
  bool is_tls = false;           ///< the connection to the upstream must use TLS
  std::string head;              ///< the head of the request, with the fields for its framing and the empty line
  request_body* body = nullptr;  ///< null: the request has no body
  bool is_chunked = false;       ///< the outgoing body has chunked framing
  bool is_to_head = false;       ///< the request's method is HEAD, so the response has no body
  /// For a tunnel, the buffer with the bytes that the client has already sent; null otherwise. The exchange then sends
  /// these bytes instead of a request, followed by all further bytes from the client.
  read_buffer* tunnelled = nullptr;
  /// For a websocket handshake, the buffer with the bytes that the client has already sent; null otherwise. Once the
  /// websocket is open, these bytes are sent, followed by all further bytes from the client.
  read_buffer* upgraded = nullptr;
  std::shared_ptr<scheduler> messages;  ///< the rate limit for websocket messages of clients; null: none
  request message_ask;                  ///< the request that each message makes to the limit `messages`
  int client_version = 11;
  /// The client has the head of an event stream, so only the body of an event stream may be sent to it.
  bool follows_events = false;
  duration write_stall{};
  std::string_view keep_alive_line;      ///< is added to the response if the client's connection stays open
  time_point until = time_point::max();  ///< the deadline of the whole exchange

  bool signs_in_connection = false;  ///< the request authenticates its connection, which then serves no other request

  // The members below are set by the exchange.
  bool keeps_client = true;       ///< in: the client's connection may stay open; out: it can stay open
  std::string failure;            ///< why the connection failed, or which status the response had; empty: unknown
  std::string failed;             ///< the beginning of the body of a response that is no event stream
  bool lacks_descriptor = false;  ///< the connection failed because this process has no free descriptor or memory
  int status = 0;
  bool has_begun = false;      ///< the client has received a byte of the response
  bool has_lost_rest = false;  ///< the upstream answered before it had the whole body, and did not accept the rest
  duration connect_time{};
  std::optional<time_point> first_byte;
  std::uint64_t bytes_in = 0;   ///< the bytes that a tunnel has received from the client
  std::uint64_t bytes_out = 0;  ///< the bytes of the response's body, or of a tunnel, that went to the client

  /// The connection to the upstream during an attempt; null otherwise. drop() cancels its operation.
  link* over = nullptr;
  bool is_aborted = false;
  exchange* beside = nullptr;  ///< the concurrent second attempt for the same request; null: none
  /// Ends the attempt soon, with attempt_end::client_lost. It does not touch the client's connection. Call it from the
  /// loop's thread.
  void drop() noexcept;
  /// Ends all attempts for the request soon, and cancels the operation on the client's connection.
  void abort() noexcept;
};

/// Makes one attempt over `l`. It opens `l` if `l` is not ready, and closes `l` unless it can serve another request.
net::awaitable<attempt_end> run_exchange(exchange& x, link& l);

}  // namespace canigo::gateway
