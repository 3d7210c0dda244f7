#pragma once

#include "canigo/time.hpp"

#include "gateway/config/config.hpp"
#include "gateway/wire/message.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// How the body of a message ends.
struct outgoing_body {
  enum class framing : std::uint8_t { none, length, chunked };

  framing how = framing::none;
  std::uint64_t length = 0;
};

/// Builds a head. It leaves out a field whose name is no token, or whose value has a line break or another control
/// character. So no text of a stranger begins another field or another message.
class head_text {
 public:
  /// Begins the head of a request: "METHOD TARGET HTTP/1.1".
  static head_text of_request(std::string_view method, std::string_view target);
  /// Begins the head of a response: "HTTP/1.1 STATUS REASON".
  static head_text of_response(int status, std::string_view reason);

  void add(std::string_view name, std::string_view value);
  void add(const outgoing_body& body);
  /// The head with the empty line at its end.
  std::string take() &&;

 private:
  std::string text_;
};

/// The client as `Forwarded` and `X-Forwarded-*` describe it, if an upstream wants them.
struct client_place {
  std::string_view address;  ///< without a port; an IPv6 address without brackets
  std::string_view host;     ///< the client's Host field
  bool is_tls = false;
};

/// The parts of an outgoing request that do not come from the client.
struct outgoing_request {
  std::string_view target = {};                     ///< target_for() of a route; a path and query in forward mode
  std::string_view host_field = {};                 ///< the Host of the upstream
  const gateway::credential* credential = nullptr;  ///< null, or passed: the client's own credential goes out
  outgoing_body body = {};
  std::string_view via = {};                   ///< "1.1 canigo-ID"
  std::optional<client_place> forwarded = {};  ///< set for upstreams with `forwarded`
  bool wants_identity = false;                 ///< the response is read for usage or limits: no compression
  bool is_websocket = false;                   ///< the request asks for a websocket
};

/// The head of a request, built anew from one that was not refused. It leaves out the fields of the client's
/// connection, Host, framing, keys, X-Canigo-*, Forwarded and X-Forwarded-*. All other fields go through in their
/// order.
std::string request_head(const message_head& head, const outgoing_request& out);

/// "Keep-Alive: timeout=N" as a line: for how many seconds a kept connection may be idle. It tells a second less than
/// `idle`, so that no request meets the end of its connection. Empty if nothing is left.
std::string keep_alive_line(duration idle);

/// Appends the fields of a response for the client, as lines. It leaves out the fields of the upstream's connection,
/// its framing, and X-Canigo-*, which are the gateway's. It also leaves out Alt-Svc, which would lead clients past the
/// gateway. X-Request-Id becomes X-Upstream-Request-Id, as the gateway sends its own.
void append_response_fields(std::string& to, const message_head& head);

}  // namespace canigo::gateway
