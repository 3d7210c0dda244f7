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
  origin,    ///< "/path?query": to the upstream of a route
  absolute,  ///< "http://host/path": forward mode
  tunnel,    ///< "host:port" of CONNECT: forward mode
};

/// The part of a request's reading that a call keeps to its end.
struct request_shape {
  target_form form = target_form::origin;
  bool is_tls = false;          ///< with `absolute`: the scheme is https
  bool is_chunked = false;      ///< the body comes in chunks
  bool has_length = false;      ///< the head tells `length`
  bool wants_continue = false;  ///< the client waits for 100 Continue before it sends the body
  bool is_websocket = false;    ///< the client asks for a websocket
  std::uint16_t port = 0;
  std::string_view path;     ///< the target from its path on, byte for byte; points into the head, and may be empty
  std::uint64_t length = 0;  ///< the length of a body that does not come in chunks
};

/// The only reading of a head that was not refused.
struct request_plan : request_shape {
  host_name host;  ///< the host that the target names; empty for `origin`
};

/// The judgement of a head: why it is refused, or how it is read.
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

/// Whether the client may send another protocol behind this head, before it has an answer: for CONNECT and a websocket.
///
/// If the request is refused, those bytes are no request.
bool may_leave_http(const message_head& head) noexcept;

/// 501 for a websocket to an upstream that has none.
refusal refuse_websocket();

/// Refuses with 508 a request that has come through this gateway before: "1.1 canigo-ID" of `via` is in one of its Via
/// fields.
std::optional<refusal> judge_loop(const message_head& head, std::string_view via);

}  // namespace canigo::gateway
