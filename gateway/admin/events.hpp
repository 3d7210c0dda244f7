#pragma once

#include "canigo/net.hpp"

#include "gateway/wire/byte_stream.hpp"

#include <asio/awaitable.hpp>

#include <functional>

namespace canigo::gateway {

class admin_session;
class service;

/// Sends the state each second, as server-sent events. Answers 503 if there are too many listeners already; the client
/// must come again.
///
/// Returns when the client has left, sends something, or takes no bytes for 5 s. Also returns when `has_left` is true,
/// or when `may_listen` returns false: it is asked before each event.
///
/// Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
///
/// `has_left`: becomes true when the connection is to end.
net::awaitable<void> send_events(service& s, admin_session& session, byte_stream& client, const bool& has_left,
                                 std::function<bool()> may_listen);

}  // namespace canigo::gateway
