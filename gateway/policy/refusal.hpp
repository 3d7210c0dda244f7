#pragma once

#include "canigo/time.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// An error response that comes from the gateway itself, not from an upstream, with the reason.
struct refusal {
  int status = 0;
  std::string_view error;  ///< the value of the header X-Canigo-Error; must be a string literal
  std::string detail;      ///< the reason as a sentence for people
  std::optional<duration> retry_after = {};
  /// true: the client should not send the request again, because that is useless, or because the work might be done
  /// twice
  bool is_final = false;
  std::string rate_fields = {};  ///< header lines that describe the limits; may be empty
};

}  // namespace canigo::gateway
