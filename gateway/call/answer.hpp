#pragma once

#include "canigo/time.hpp"

#include "gateway/call/call_record.hpp"
#include "gateway/policy/refusal.hpp"

#include <string>
#include <string_view>

namespace canigo::gateway {

/// The fields that every response has: X-Request-Id, X-Canigo-Wait-Ms and X-Canigo-Attempts.
void append_own_fields(std::string& to, const call_record& r);

/// A whole response. Its JSON has what RFC 9457 asks for, and an object `error` and a `message`, which clients of model
/// providers read. It is application/problem+json only for a client that names this type: others read application/json
/// alone. `connection`: lines that tell whether the connection goes on.
std::string problem(const refusal& why, const call_record& r, std::string_view connection, bool to_head);

/// The head of a stream of events, in chunks, for a client whose call still waits.
std::string events_head(const call_record& r, std::string_view connection);
/// A text as one chunk.
std::string chunk_of(std::string_view text);

/// A whole response of the admin. `fields`: further ones, each with its line break.
std::string page(int status, std::string_view type, std::string_view body, bool closes, bool to_head,
                 std::string_view fields = {});
/// The head of a response of the admin that has no length: its body ends with the connection.
std::string page_head(int status, std::string_view type, std::string_view fields);

/// The text as a string of JSON, in quotes. Bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);
void append_json_string(std::string& to, std::string_view text);

/// Whole seconds, rounded up, and at least 1.
std::string seconds_up(duration d);
/// Whole milliseconds, rounded up, and at least 1.
std::string milliseconds_up(duration d);

}  // namespace canigo::gateway
