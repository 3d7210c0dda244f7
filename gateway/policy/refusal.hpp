#pragma once

#include "canigo/time.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// An error response that the gateway itself gives, with the reason.
struct refusal {
  int status = 0;
  std::string_view error;  ///< the value of X-Canigo-Error; must be a literal
  std::string detail;      ///< the reason as a sentence for people
  std::optional<duration> retry_after = {};
  /// true: the client should not send the request again, as that is useless or might do its work twice
  bool is_final = false;
  std::string rate_fields = {};  ///< header lines that describe the limits; may be empty
};

}  // namespace canigo::gateway
