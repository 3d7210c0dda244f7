#pragma once

#include "canigo/time.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// An error response that the gateway itself gives, with the reason.
struct refusal {
  int status = 0;
  std::string_view error;  ///< the value of X-Canigo-Error: a literal
  std::string detail;      ///< the reason as a sentence for people
  std::optional<duration> retry_after = {};
  bool is_final = false;         ///< sending the same request again is useless, or might do its work twice
  std::string rate_fields = {};  ///< lines of the head that describe the limits; may be empty
};

}  // namespace canigo::gateway
