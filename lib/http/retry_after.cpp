#include "canigo/http/retry_after.hpp"

#include "canigo/detail/time/decimal_seconds.hpp"

#include "seconds.hpp"
#include "text.hpp"

#include <algorithm>
#include <string_view>

namespace canigo::http {
namespace {

std::optional<duration> read_one(std::string_view field, std::chrono::system_clock::time_point now, duration most) {
  if (const auto seconds = canigo::detail::parse_decimal_seconds(field, most)) return seconds;
  const auto until = detail::parse_date(field);
  if (!until) return std::nullopt;
  return std::clamp<duration>(*until - now, duration::zero(), most);
}

}  // namespace

std::optional<duration> retry_after(const response& r, std::chrono::system_clock::time_point now, duration most) {
  most = std::max(most, duration::zero());
  if (const auto date = r.headers.find("Date")) now = detail::parse_date(*date).value_or(now);
  std::optional<duration> longest;
  for (const header h : r.headers) {
    // Nothing is less than any time.
    if (detail::same_text(h.name, "Retry-After")) longest = std::max(longest, read_one(h.value, now, most));
  }
  return longest;
}

}  // namespace canigo::http
