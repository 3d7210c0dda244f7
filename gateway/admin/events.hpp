#pragma once

#include "canigo/net.hpp"

#include "gateway/wire/byte_stream.hpp"

#include <asio/awaitable.hpp>

#include <functional>

namespace canigo::gateway {

class admin_session;
class service;

/// Sends the state each second, as server-sent events. If too many clients receive events already, it answers 503.
///
/// Returns when the client disconnects, sends something, or accepts no bytes for 5 s. It also returns when `has_left`
/// is true, or when `may_listen`, which is called before each event, returns false.
///
/// Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
///
/// `has_left`: becomes true when the connection must end.
net::awaitable<void> send_events(service& s, admin_session& session, byte_stream& client, const bool& has_left,
                                 std::function<bool()> may_listen);

}  // namespace canigo::gateway
