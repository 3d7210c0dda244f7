#pragma once

#include "canigo/net.hpp"

#include "gateway/wire/byte_stream.hpp"
#include "gateway/wire/message.hpp"

#include <asio/awaitable.hpp>

#include <functional>
#include <string>
#include <vector>

namespace canigo::gateway {

class service;

struct admin_reply {
  std::string text;            ///< the whole response
  bool begins_events = false;  ///< there is no text: the caller sends events by admin_handler::send_events()
};

/// The commands of an operator to the process.
struct process_commands {
  /// Begins to drain the process, if that has not begun.
  std::function<void()> drain;
  /// Reads the configuration again, on the first loop, and returns its mistakes.
  std::function<net::awaitable<std::vector<std::string>>()> reload;
};

/// Answers the requests that come to the admin listener. Threads: that of the first loop.
class admin_handler {
 public:
  admin_handler() = default;
  admin_handler(const admin_handler&) = delete;
  admin_handler& operator=(const admin_handler&) = delete;
  virtual ~admin_handler() = default;

  /// Call it before any loop runs.
  virtual void take(process_commands commands) = 0;

  /// The response to a request. `closes`: it is the last one of its connection. The body is not read, because the
  /// answer depends on the head only.
  virtual net::awaitable<admin_reply> answer(service& s, const message_head& head, bool closes) = 0;
  /// Whether this request, which was admitted earlier, would still be admitted now.
  virtual bool is_still_admitted(const service& s, const message_head& head) = 0;
  /// Sends the state each second. Ends when the client leaves or takes no byte for a while, when `has_left` is true, or
  /// when `may_listen` returns false. `has_left` becomes true when the connection is to end.
  virtual net::awaitable<void> send_events(service& s, byte_stream& client, const bool& has_left,
                                           std::function<bool()> may_listen) = 0;
};

}  // namespace canigo::gateway
