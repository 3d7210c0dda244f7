#pragma once

#include "canigo/http/request.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::http::detail {

/// The part of a request that can't be sent, in the words of errc::invalid_argument.
struct request_problem {
  std::string field;
  std::string value;
  std::string_view allowed;
};

/// The first problem by which a request would become another one on the wire, or an invalid one. curl checks the URL.
std::optional<request_problem> problem_of(const request& r);

/// RFC 9110, 9.2.2: methods with the same effect whether a request arrives once or twice.
bool is_idempotent(std::string_view method) noexcept;

}  // namespace canigo::http::detail
