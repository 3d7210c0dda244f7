#pragma once

#include "canigo/time.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Why the gateway itself answers.
struct refusal {
  int status = 0;
  std::string_view error;  ///< of X-Canigo-Error: a literal
  std::string detail;      ///< for a person
  std::optional<duration> retry_after = {};
  bool is_final = false;         ///< the same request, sent again, would fare no better or might be done twice
  std::string rate_fields = {};  ///< lines of a head that tell of the limits; empty: there are none
};

}  // namespace canigo::gateway
