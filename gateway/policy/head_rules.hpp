#pragma once

#include "gateway/config/config.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/wire/host_name.hpp"
#include "gateway/wire/message.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace canigo::gateway {

/// How a request names its destination.
enum class target_form : std::uint8_t {
  origin,    ///< "/path?query": the request goes to the upstream of a route
  absolute,  ///< "http://host/path": the request is for forward mode
  tunnel,    ///< "host:port" of a CONNECT: the request is for forward mode
};

/// The properties of a request that its call keeps to the end.
struct request_shape {
  target_form form = target_form::origin;
  bool is_tls = false;          ///< with `absolute`: the scheme is https
  bool is_chunked = false;      ///< the body has chunked framing
  bool has_length = false;      ///< the head has a Content-Length, whose value is `length`
  bool wants_continue = false;  ///< the client waits for 100 Continue before it sends the body
  bool is_websocket = false;    ///< the client asks for a websocket
  std::uint16_t port = 0;
  std::string_view path;     ///< the target from its path on, unchanged; points into the head, and may be empty
  std::uint64_t length = 0;  ///< the length of a body without chunked framing
};

/// A request head that was accepted, in the one way in which it can be read.
struct request_plan : request_shape {
  host_name host;  ///< the host that the target names; empty for `origin`
};

/// The result of judging a head: either a refusal or the plan of the request.
struct head_judgement {
  std::optional<refusal> refused;
  request_plan plan;
};

/// Judges the head of a request before it is used. It refuses each head that two readers may understand differently,
/// even if the parser has let it through.
///
/// Source: RFC 9110, RFC 9112 (sections 3.2, 6.1, 6.3 and 11.2).
/// Allocates: for a refusal, and for the host.
head_judgement judge_head(const message_head& head, listen_mode mode, const size_limits& limits);

/// Whether the client may send bytes of another protocol right after this head, before it has an answer. CONNECT and
/// websocket handshakes do.
///
/// If the request is refused, those bytes must not be parsed as a request.
bool may_leave_http(const message_head& head) noexcept;

/// Builds the answer 501 to a websocket handshake for an upstream without websockets.
refusal refuse_websocket();

/// Refuses with 508 a request that has passed through this gateway before. `via`: this gateway's own entry "1.1
/// canigo-ID", which such a request has in a Via field.
std::optional<refusal> judge_loop(const message_head& head, std::string_view via);

}  // namespace canigo::gateway
