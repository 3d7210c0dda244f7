#pragma once

#include "canigo/detail/queue/units.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <cstdint>

namespace canigo::redis::detail {

/// A request to a limit in Redis, as the process keeps it until it is granted or ends.
struct limit_request {
  limit_request(const request& r, bool is_patient) noexcept : wanted{r}, waits{is_patient}, amounts{r.tokens} {}

  const request wanted;
  const bool waits;                         // if not, it ends with the next call, granted or not
  canigo::detail::amounts_by_unit amounts;  // the amount of each unit; of the first unit its weight, for Redis
  std::uint64_t id = 0;                     // its number in Redis, which changes with the session
  std::uint64_t arrival = 0;
  time_point since{};
  bool is_known = false;    // Redis may know the request
  bool has_looked = false;  // the last look before its deadline is over, and it waits on
};

}  // namespace canigo::redis::detail
