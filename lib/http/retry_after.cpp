#include "canigo/http/retry_after.hpp"

#include "told.hpp"

namespace canigo::http {

std::optional<duration> retry_after(const response& r, std::chrono::system_clock::time_point now, duration most) {
  return detail::told_by(r, now, most).retry_after;
}

}  // namespace canigo::http
