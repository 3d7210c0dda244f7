#pragma once

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/admission/permit_waiter.hpp"
#include "canigo/permit.hpp"
#include "canigo/request.hpp"

#include <optional>

// Functions that create permits. They are inline, because every immediate grant calls one of them.

namespace canigo::detail {

inline permit permit_waiter::granted(admission& home, const request& r) noexcept {
  return permit{home, home.places_of(r), home.keep(r)};
}

inline permit permit_waiter::granted(admission& home, int) noexcept {
  return permit{home, home.places_for(1), home.keep()};
}

inline permit permit_waiter::granted_place(admission& home) noexcept { return permit{home, 1, 1}; }

/// Occupies one slot without waiting, and returns a permit for it. Returns std::nullopt if the limit was closed.
inline std::optional<permit> occupy_place(admission& home) noexcept {
  if (!home.occupy(1)) return std::nullopt;
  return permit_waiter::granted_place(home);
}

}  // namespace canigo::detail
