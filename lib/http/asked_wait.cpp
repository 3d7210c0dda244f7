#include "canigo/http/asked_wait.hpp"

#include "told.hpp"

#include <algorithm>

namespace canigo::http {

std::optional<duration> asked_wait(const response& r, std::chrono::system_clock::time_point now, duration most) {
  const auto told = detail::told_by(r, now, most);
  constexpr int first_error = 400;
  const auto named = r.status >= first_error ? told.retry_after : std::nullopt;
  // An empty optional compares less than any time, so std::max() returns the time if only one of its two arguments is
  // set.
  return std::max(named, told.reset_of_used_up(canigo::detail::is_refusal_by_limit(r.status)));
}

}  // namespace canigo::http
