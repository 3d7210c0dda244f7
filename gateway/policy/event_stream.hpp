#pragma once

#include "canigo/time.hpp"

#include "gateway/config/config.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/wire/message.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Whether the client of this request reads server-sent events: it accepts text/event-stream, or the body is JSON whose
/// member `stream` is true.
///
/// `body`: the whole body; empty if the body is not known.
bool asks_for_events(const message_head& request, std::string_view body);

/// Whether the gateway can append the body of this response to events that it has already sent to the client. The
/// response must have status 200 and type text/event-stream, and it must not be compressed.
bool continues_events(const message_head& response) noexcept;

/// Builds a comment line of an event stream; clients ignore such lines. The line contains the call's position in the
/// queue and the least time that the call will wait. An estimate of 0 is left out.
std::string waiting_comment(std::optional<std::size_t> position, duration estimate);

/// Builds the event that reports a refusal by the gateway. The event has the format of errors in `api`.
std::string failure_event(token_api api, const refusal& why);
/// Builds the event that reports an upstream's response with an error status. If `body` is an error in the format of
/// `api`, the event contains that error unchanged. If `body` is an RFC 9457 problem, its title and detail follow the
/// gateway's own text. `body`: the body of the response, or only a part of it.
std::string failure_event(token_api api, const refusal& why, std::string_view body);

}  // namespace canigo::gateway
