#pragma once

#include "canigo/detail/admission/admission.hpp"
#include "canigo/permit.hpp"
#include "canigo/request.hpp"

#include <cstdint>
#include <optional>
#include <system_error>
#include <tuple>

namespace canigo::detail {

/// A waiter whose handler takes an error code and the permit that it was granted.
class permit_waiter : public waiter {
 public:
  using waiter::waiter;
  using results = std::tuple<std::error_code, permit>;
  using signature = void(std::error_code, permit);
  using granted_type = permit;

  static permit granted(admission& home, std::uint64_t tokens) noexcept {
    return permit{home, home.places_for(tokens), tokens};
  }
  static permit granted(admission& home, const request& r) noexcept { return granted(home, r.tokens); }

  static permit granted_place(admission& home) noexcept { return permit{home, 1, 1}; }

  results take_results() noexcept {
    const outcome o = take_outcome();
    return {to_error_code(o), o == outcome::granted ? granted(*home_, tokens) : permit{}};
  }
  static results failed(errc code) noexcept { return {make_error_code(code), permit{}}; }
};

/// A permit for a place that nobody waited for; empty once the supplies are closed.
inline std::optional<permit> occupy_place(admission& home) noexcept {
  if (!home.occupy(1)) return std::nullopt;
  return permit_waiter::granted_place(home);
}

}  // namespace canigo::detail
