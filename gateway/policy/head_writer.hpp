#pragma once

#include "canigo/time.hpp"

#include "gateway/config/config.hpp"
#include "gateway/wire/message.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The framing of a message's body: how the receiver knows where the body ends.
struct outgoing_body {
  enum class framing : std::uint8_t { none, length, chunked };

  framing how = framing::none;
  std::uint64_t length = 0;
};

/// Builds the head of a message. It drops a field whose name is no token, or whose value has a line break or another
/// control character. So neither a client nor an upstream can inject a field or a message.
class head_text {
 public:
  /// Begins the head of a request with "METHOD TARGET HTTP/1.1".
  static head_text of_request(std::string_view method, std::string_view target);
  /// Begins the head of a response with "HTTP/1.1 STATUS REASON".
  static head_text of_response(int status, std::string_view reason);

  void add(std::string_view name, std::string_view value);
  void add(const outgoing_body& body);
  /// Returns the head, with the empty line at its end.
  std::string take() &&;

 private:
  std::string text_;
};

/// The client's address and host, for the fields `Forwarded` and `X-Forwarded-*`, which only some upstreams get.
struct client_place {
  std::string_view address;  ///< the client's address without a port; an IPv6 address without brackets
  std::string_view host;     ///< the value of the client's Host field
  bool is_tls = false;
};

/// The parts of an outgoing request that do not come from the client.
struct outgoing_request {
  std::string_view target = {};      ///< for a route: the result of target_for(); in forward mode: the path and query
  std::string_view host_field = {};  ///< the value of the outgoing Host field
  /// The credential that the gateway sends. If it is null or of kind `passed`, the client's own credential is
  /// forwarded.
  const gateway::credential* credential = nullptr;
  outgoing_body body = {};
  std::string_view via = {};                   ///< the gateway's entry in Via: "1.1 canigo-ID"
  std::optional<client_place> forwarded = {};  ///< set only for upstreams with the option `forwarded`
  /// True if the gateway must read the response for usage or limits. Then the request does not allow a compressed
  /// response.
  bool wants_identity = false;
  bool is_websocket = false;  ///< whether the request asks for a websocket
};

/// Builds the outgoing head from a client's head that judge_head() has accepted. It drops the hop-by-hop fields, Host,
/// Content-Length, Expect, X-Canigo-*, Forwarded and X-Forwarded-*. If the gateway sends its own credential, it drops
/// the client's credentials. All other fields stay in their order, except that `wants_identity` replaces
/// Accept-Encoding.
std::string request_head(const message_head& head, const outgoing_request& out);

/// Returns the header line "Keep-Alive: timeout=N" with its line end, where N is one second less than `idle`, the time
/// for which a connection may be idle. So the client closes the connection before the gateway does. Empty if N is 0.
std::string keep_alive_line(duration idle);

/// Appends the fields of an upstream's response to `to`, as lines for the client. Drops the fields of the upstream's
/// connection, its framing, and X-Canigo-*, which only the gateway may set. Drops Alt-Svc, because it would make
/// clients bypass the gateway. Renames X-Request-Id to X-Upstream-Request-Id, because the gateway sends an X-Request-Id
/// of its own.
void append_response_fields(std::string& to, const message_head& head);

}  // namespace canigo::gateway
