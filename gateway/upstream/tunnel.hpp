#pragma once

#include "gateway/upstream/exchange.hpp"

#include <asio/awaitable.hpp>

namespace canigo::gateway {

/// Tells the client that its tunnel is open, and passes bytes in both directions over the open `l`. Returns when both
/// sides have ended, one side has failed, or no byte has moved for `timeout.idle`.
///
/// A slow side slows down the other one: in each direction, one piece of up to 64 KiB is read, and then written. A side
/// that stops sending may still receive. But if the client's connection has TLS, the tunnel ends when the upstream
/// stops sending.
net::awaitable<attempt_end> run_tunnel(exchange& x, link& l);

/// Passes the 101 response that opens a websocket to the client, and then bytes in both directions, like a tunnel. A
/// message of the client waits for a token of `x.messages` before its first byte is sent. The client's later bytes wait
/// behind this message.
net::awaitable<attempt_end> run_websocket(exchange& x, link& l, const message_head& opened);

}  // namespace canigo::gateway
