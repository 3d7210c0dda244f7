#pragma once

#include "gateway/config/config.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/wire/host_name.hpp"
#include "gateway/wire/message.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace canigo::gateway {

/// The form of the target in a request line, which determines where the request goes.
enum class target_form : std::uint8_t {
  origin,    ///< "/path?query": the request goes to the upstream of a route
  absolute,  ///< "http://host/path": the client uses the gateway as a forward proxy
  tunnel,    ///< "host:port" of a CONNECT: the client uses the gateway as a forward proxy
};

/// The properties of a request that are needed until its call ends.
struct request_shape {
  target_form form = target_form::origin;
  bool is_tls = false;          ///< true: the target has the form `absolute` and the scheme https
  bool is_chunked = false;      ///< whether the body has chunked framing
  bool has_length = false;      ///< the head has a Content-Length; `length` is its value
  bool wants_continue = false;  ///< the client waits for 100 Continue before it sends the body
  bool is_websocket = false;    ///< whether the request is a websocket handshake
  std::uint16_t port = 0;
  std::string_view path;     ///< the target from its path on, unchanged; points into the head, and may be empty
  std::uint64_t length = 0;  ///< the length of the body; 0 if the body has chunked framing
};

/// The properties of a request whose head the gateway has accepted.
struct request_plan : request_shape {
  host_name host;  ///< the host that the target names; empty for `origin`
};

/// The result of judging a request head: either a refusal or the plan of the request.
struct head_judgement {
  std::optional<refusal> refused;
  request_plan plan;
};

/// Judges the head of a request before any other code uses the head. Refuses each head that two programs may understand
/// differently, even if the parser has accepted it.
///
/// Source: RFC 9110, RFC 9112 (sections 3.2, 6.1, 6.3 and 11.2). Allocates: for a refusal, and for the host.
head_judgement judge_head(const message_head& head, listen_mode mode, const size_limits& limits);

/// Whether the client may send bytes of another protocol right after this head, before it has an answer. The head of a
/// CONNECT or a websocket handshake allows this.
///
/// If such a request is refused, the bytes after it must not be parsed as a request.
bool may_leave_http(const message_head& head) noexcept;

/// Builds the answer 501 to a websocket handshake for an upstream without websockets.
refusal refuse_websocket();

/// Refuses a request with 508 if it has already passed through this gateway. `via`: this gateway's entry "1.1
/// canigo-ID"; a request has this entry in a Via field if it has passed through this gateway.
std::optional<refusal> judge_loop(const message_head& head, std::string_view via);

}  // namespace canigo::gateway
