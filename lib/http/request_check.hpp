#pragma once

#include "canigo/http/request.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::http::detail {

/// A wrong field of a request: with this field, the request can't be sent. The error message is "FIELD is VALUE;
/// allowed: ALLOWED".
struct request_problem {
  std::string field;
  std::string value;
  std::string_view allowed;
};

/// Returns the first problem that would make the sent request invalid, or change its meaning; nothing if there is no
/// problem. curl itself checks the URL.
std::optional<request_problem> problem_of(const request& r);

/// Whether repeating a request with this method has no further effect (RFC 9110, 9.2.2).
bool is_idempotent(std::string_view method) noexcept;

}  // namespace canigo::http::detail
