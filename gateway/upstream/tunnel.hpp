#pragma once

#include "gateway/upstream/exchange.hpp"

#include <asio/awaitable.hpp>

namespace canigo::gateway {

/// Tells the client that its tunnel is open, and passes bytes in both directions over the open link `l`. Returns when
/// both sides have stopped sending, when one side has failed, or when no byte was passed on for `timeout.idle`.
///
/// In each direction, one piece of up to 64 KiB is read and then written, so a slow receiver slows down the sender. A
/// side that stops sending may still receive. But if the client's connection uses TLS, the tunnel ends when the
/// upstream stops sending.
net::awaitable<attempt_end> run_tunnel(exchange& x, link& l);

/// Passes to the client the 101 response that opens a websocket. Then passes bytes in both directions, like a tunnel.
/// If `x.messages` is set, each message of the client waits for a token of this rate limit before its first byte is
/// sent. The client's later bytes wait behind this message.
net::awaitable<attempt_end> run_websocket(exchange& x, link& l, const message_head& opened);

}  // namespace canigo::gateway
