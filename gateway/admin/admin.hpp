#pragma once

#include "canigo/net.hpp"

#include "gateway/http/message.hpp"

#include <asio/awaitable.hpp>

#include <string>

namespace canigo::gateway {

class service;

struct admin_reply {
  std::string text;            ///< the whole response
  bool begins_events = false;  ///< instead: see send_events()
};

/// The response to a request to the admin's listener. `closes`: it is the last one of its connection.
///
/// Nothing is told or done without the token, but for the health checks and the page, in which no data is. No body is
/// read: what is asked for is in the head.
net::awaitable<admin_reply> admin_answer(service& s, const message_head& head, bool closes);

/// Whether this request, which had an answer, would have one now too: its cookie may have ended since, or the token be
/// another one.
bool is_still_admitted(const service& s, const message_head& head);

}  // namespace canigo::gateway
