#pragma once

#include "canigo/net.hpp"

#include "gateway/wire/byte_stream.hpp"

#include <asio/awaitable.hpp>

#include <functional>

namespace canigo::gateway {

class admin_session;
class service;

/// Sends the state each second, as server-sent events, until the client leaves, takes nothing for a while, or the
/// drain is over; or until `may_listen` says no, as the operator's session is over or the token is another one. The
/// client has to come again if there are too many listeners already.
///
/// Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
/// `has_left`: becomes true when the connection is to end.
net::awaitable<void> send_events(service& s, admin_session& session, byte_stream& client, const bool& has_left,
                                 std::function<bool()> may_listen);

}  // namespace canigo::gateway
