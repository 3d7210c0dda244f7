#pragma once

#include "canigo/http/request.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::http::detail {

/// What of a request can't be sent, in the words of errc::invalid_argument.
struct request_problem {
  std::string field;
  std::string value;
  std::string_view allowed;
};

/// The first thing about a request that would make another one of it on the wire, or none at all; the URL is curl's to
/// judge.
std::optional<request_problem> problem_of(const request& r);

}  // namespace canigo::http::detail
