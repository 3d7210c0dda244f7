#pragma once

#include "gateway/upstream/exchange.hpp"

#include <asio/awaitable.hpp>

namespace canigo::gateway {

/// Tells the client that its tunnel is open, and passes bytes both ways over `l`, which is open. Returns when both
/// sides have ended, one has failed, or nothing has moved for `timeout.idle`.
///
/// A side that is slow slows the other: of each way, one piece of up to 64 KiB is read and then written. A side that
/// ends its sending may still receive. But if the client's connection has TLS, the end of the upstream's sending ends
/// the tunnel.
net::awaitable<attempt_end> run_tunnel(exchange& x, link& l);

/// Passes on the 101 that opens a websocket, and then bytes both ways, as a tunnel does. A message of the client waits
/// for its token of `x.messages` before its first byte is sent, and so does all that the client sends after it.
net::awaitable<attempt_end> run_websocket(exchange& x, link& l, const message_head& opened);

}  // namespace canigo::gateway
