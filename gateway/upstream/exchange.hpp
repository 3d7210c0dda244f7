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

/// One request, or one tunnel, on its way to an upstream and back. It belongs to the connection of the client.
struct exchange {
  exchange(const upstream& u, const surroundings& s, byte_stream& c, response_sink& r)
      : up{&u}, around{s}, client{c}, sink{&r} {}

  // The request. The objects that it refers to outlive the exchange.
  const upstream* up;                ///< its settings for the target
  std::size_t target = 0;            ///< which of the upstream's targets gets the request
  std::shared_ptr<const void> home;  ///< keeps `up` and `pool`, if they are of a newer configuration than the call
  link_pool* pool = nullptr;         ///< the connections to it
  const surroundings around;
  byte_stream& client;
  response_sink* sink;           ///< takes the response
  bool is_tls = false;           ///< the connection to the upstream has TLS
  std::string head;              ///< the head of the request, with its framing and the empty line
  request_body* body = nullptr;  ///< null: there is none
  bool is_chunked = false;       ///< how the body is framed on its way out
  bool is_to_head = false;       ///< the method is HEAD
  /// Not null: this is a tunnel. It sends no request, but the bytes of this buffer, and then all that the client sends.
  read_buffer* tunnelled = nullptr;
  /// Not null: the request asks for a websocket. Once it is open, the bytes of this buffer follow, and then all that
  /// the client sends.
  read_buffer* upgraded = nullptr;
  std::shared_ptr<scheduler> messages;  ///< the limit of the messages of clients; null: there is none
  request message_ask;                  ///< the request for a message
  int client_version = 11;
  bool follows_events = false;  ///< the client has the head of a stream of events: only the body of one goes to it
  duration write_stall{};
  std::string_view keep_alive_line;      ///< the line for a response after which the client's connection goes on
  time_point until = time_point::max();  ///< the whole exchange has to have ended by then

  bool signs_in_connection = false;  ///< the connection then serves no other request

  // The outcome.
  bool keeps_client = true;       ///< in: whether the client's connection may go on; out: whether it can
  std::string failure;            ///< why there is no connection, or which status is no stream; empty: unknown
  std::string failed;             ///< the beginning of the body of a response that is no stream of events
  bool lacks_descriptor = false;  ///< there is no connection because this process has no descriptor or no memory left
  int status = 0;
  bool has_begun = false;      ///< the client has got a byte of the response
  bool has_lost_rest = false;  ///< the upstream has answered, and then not taken the rest of the body
  duration connect_time{};
  std::optional<time_point> first_byte;
  std::uint64_t bytes_in = 0;   ///< of a tunnel: bytes from the client
  std::uint64_t bytes_out = 0;  ///< bytes of the response's body, or of a tunnel to the client

  /// The connection to the upstream while an attempt is on; null otherwise. drop() ends its operation.
  link* over = nullptr;
  bool is_aborted = false;
  exchange* beside = nullptr;  ///< another attempt for the same request
  /// Ends the attempt soon, with client_lost. The client's connection is left alone. From the loop's thread.
  void drop() noexcept;
  /// Ends all attempts for the request soon, and the operation of the client's connection.
  void abort() noexcept;
};

/// Makes one attempt over `l`, which is opened if it is not ready, and closed unless it can serve another request.
net::awaitable<attempt_end> run_exchange(exchange& x, link& l);

}  // namespace canigo::gateway
