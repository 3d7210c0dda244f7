#include "canigo/http/retry_after.hpp"

#include "seconds.hpp"

#include <algorithm>

namespace canigo::http {

std::optional<duration> retry_after(const response& r, std::chrono::system_clock::time_point now, duration most) {
  const auto field = r.headers.find("Retry-After");
  if (!field) return std::nullopt;
  most = std::max(most, duration::zero());
  if (const auto seconds = detail::parse_seconds(*field, most)) return seconds;
  const auto until = detail::parse_date(*field);
  if (!until) return std::nullopt;
  if (const auto date = r.headers.find("Date")) now = detail::parse_date(*date).value_or(now);
  if (*until <= now) return duration::zero();
  return std::min<duration>(*until - now, most);
}

}  // namespace canigo::http
