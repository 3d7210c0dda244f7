#pragma once

#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <cstdint>

namespace canigo::redis::detail {

/// A request to a limit in Redis, as the process keeps it until it is granted or ends.
struct limit_request {
  limit_request(const request& r, bool is_patient) noexcept : wanted{r}, waits{is_patient} {}

  const request wanted;
  const bool waits;      // if not, the next call grants it, or nothing does
  std::uint64_t id = 0;  // in Redis; another one in another session
  std::uint64_t arrival = 0;
  time_point since{};
  bool is_known = false;    // to Redis, perhaps
  bool has_looked = false;  // shortly before its deadline it was decided that it goes on waiting
};

}  // namespace canigo::redis::detail
