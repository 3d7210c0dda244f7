#pragma once

#include "canigo/detail/queue/units.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>

namespace canigo::redis::detail {

/// A request to a limit in Redis, from its start in this process until it is granted or ends.
struct limit_request {
  limit_request(const request& r, bool is_patient) noexcept : wanted{r}, waits{is_patient}, amounts{r.tokens} {}

  const request wanted;
  const bool waits;  // if false, the request ends with the next call of the Redis script, granted or not
  canigo::detail::amounts_by_unit amounts;  // the amount of each unit; Redis calls the first unit's amount the weight
  std::uint64_t set = 0;                    // the alternatives that can serve the request
  std::size_t alternative = 0;              // the alternative that granted the request
  std::uint64_t id = 0;                     // the number of the request in Redis; a new session gives it a new number
  std::uint64_t arrival = 0;
  time_point since{};
  bool is_known = false;    // whether Redis may have a record of the request
  bool has_looked = false;  // whether the last call of the Redis script before the deadline has ended without a grant
};

}  // namespace canigo::redis::detail
