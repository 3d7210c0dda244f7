#pragma once

#include "canigo/detail/told/told_limits.hpp"
#include "canigo/http/response.hpp"
#include "canigo/time.hpp"

#include <chrono>

namespace canigo::http::detail {

/// Returns the limits of the server that the header fields of its response report. The result refers to texts in the
/// response.
inline canigo::detail::told_limits told_by(const response& r, std::chrono::system_clock::time_point now,
                                           duration most) noexcept {
  canigo::detail::limit_fields fields;
  for (const header h : r.headers) fields.take(h.name, h.value);
  return fields.read(now, most);
}

}  // namespace canigo::http::detail
