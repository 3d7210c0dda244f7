#pragma once

#include "canigo/time.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The reason for which the gateway itself answers.
struct refusal {
  int status = 0;
  std::string_view error;  ///< the value of X-Canigo-Error: a literal
  std::string detail;      ///< the reason in words, for a person
  std::optional<duration> retry_after = {};
  bool is_final = false;         ///< the same request, sent again, would fare no better or might be done twice
  std::string rate_fields = {};  ///< lines of a head that tell of the limits; empty: there are none
};

}  // namespace canigo::gateway
