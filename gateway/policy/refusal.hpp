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
};

}  // namespace canigo::gateway
