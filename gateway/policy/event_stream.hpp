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
/// `body`: the whole body, or empty.
bool asks_for_events(const message_head& request, std::string_view body);

/// Whether the body of this response can follow events that the client has already: its status is 200, its type
/// text/event-stream, and it is not compressed.
bool continues_events(const message_head& response) noexcept;

/// A comment of a stream of events, which clients leave out: a call waits, at this position in the line, and for so
/// long at the least. An estimate of 0 is not told.
std::string waiting_comment(std::optional<std::size_t> position, duration estimate);

/// The event that stands for an answer of the gateway, in the form of the API's own errors.
std::string failure_event(token_api api, const refusal& why);
/// The event that stands for a response with this status. An error of the API in its body goes out as it is. The title
/// and the detail of a problem of RFC 9457 go out behind the gateway's words. `body` may be a part of it.
std::string failure_event(token_api api, const refusal& why, std::string_view body);

}  // namespace canigo::gateway
