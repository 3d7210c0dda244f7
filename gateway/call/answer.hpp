#pragma once

#include "canigo/time.hpp"

#include "gateway/call/call_record.hpp"
#include "gateway/policy/refusal.hpp"

#include <string>
#include <string_view>

namespace canigo::gateway {

/// Appends the response fields that the gateway adds: X-Request-Id, X-Canigo-Wait-Ms and X-Canigo-Attempts.
void append_own_fields(std::string& to, const call_record& r);

/// Builds a whole error response. Its JSON has the members of RFC 9457, and also the members `error` and `message`,
/// which clients of model providers read. Its type is application/problem+json only if the client accepts this type by
/// name, because other clients read only application/json. `connection`: the Connection and Keep-Alive lines of the
/// head.
std::string problem(const refusal& why, const call_record& r, std::string_view connection, bool to_head);

/// Builds the head of an event stream, with chunked framing. This head is sent to a client before the upstream has
/// answered the client's call.
std::string events_head(const call_record& r, std::string_view connection);
/// Returns `text` as one chunk of a chunked body.
std::string chunk_of(std::string_view text);

/// Builds a whole response of the admin listener. `fields`: additional fields, each with its line end. `closes`: adds
/// "Connection: close". `to_head`: leaves the body out, for a HEAD request.
std::string page(int status, std::string_view type, std::string_view body, bool closes, bool to_head,
                 std::string_view fields = {});
/// Builds the head of a response of the admin listener, without a Content-Length: the body ends when the connection
/// closes.
std::string page_head(int status, std::string_view type, std::string_view fields);

/// Returns the text as a JSON string, in quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);
void append_json_string(std::string& to, std::string_view text);

/// Formats a duration in whole seconds, rounded up, and at least 1.
std::string seconds_up(duration d);
/// Formats a duration in whole milliseconds, rounded up, and at least 1.
std::string milliseconds_up(duration d);

}  // namespace canigo::gateway
