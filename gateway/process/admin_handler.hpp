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
  std::string text;            ///< the whole response; empty if `begins_events` is true
  bool begins_events = false;  ///< true: there is no text; the caller must call admin_handler::send_events() instead
};

/// The functions by which commands of the admin control the process.
struct process_commands {
  /// Begins to drain the process, unless a drain has already begun.
  std::function<void()> drain;
  /// Reads the configuration again, on the first event loop. Returns the errors in it; empty: the new configuration is
  /// in use.
  std::function<net::awaitable<std::vector<std::string>>()> reload;
};

/// Answers the requests to the admin listener. Threads: only the thread of the first loop.
class admin_handler {
 public:
  admin_handler() = default;
  admin_handler(const admin_handler&) = delete;
  admin_handler& operator=(const admin_handler&) = delete;
  virtual ~admin_handler() = default;

  /// Stores the functions by which commands control the process. Call it before any event loop runs.
  virtual void take(process_commands commands) = 0;

  /// Returns the response to a request. `closes`: the connection ends after this response. The request's body is not
  /// read, because the response depends only on the head.
  virtual net::awaitable<admin_reply> answer(service& s, const message_head& head, bool closes) = 0;
  /// Whether the token in this request, which was valid when the request came, is still valid now.
  virtual bool is_still_admitted(const service& s, const message_head& head) = 0;
  /// Sends the state each second. Returns when the client disconnects or accepts no byte for a while, when `has_left`
  /// is true, or when `may_listen` returns false. `has_left` becomes true when the connection must end.
  virtual net::awaitable<void> send_events(service& s, byte_stream& client, const bool& has_left,
                                           std::function<bool()> may_listen) = 0;
};

}  // namespace canigo::gateway
