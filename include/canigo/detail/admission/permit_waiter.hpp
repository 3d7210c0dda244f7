#pragma once

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/flow_places.hpp"
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

  static permit granted(admission& home, const request& r) noexcept {
    return permit{home, home.places_of(r), home.keep(r)};
  }
  /// The permit of a request that asked by its class alone.
  static permit granted(admission& home, int = 0) noexcept { return permit{home, home.places_for(1), home.keep()}; }

  static permit granted_place(admission& home) noexcept { return permit{home, 1, 1}; }

  results take_results() noexcept {
    let_go_of_engine();
    if (ended_with() != outcome::granted) return {to_error_code(ended_with()), permit{}};
    return {std::error_code{}, permit{*home_, flow_places::join(home_->places_for(tokens), flow()), take_tokens()}};
  }
  static results failed(errc code) noexcept { return {make_error_code(code), permit{}}; }
};

/// A permit for a place that is free at once; empty once the supplies are closed.
inline std::optional<permit> occupy_place(admission& home) noexcept {
  if (!home.occupy(1)) return std::nullopt;
  return permit_waiter::granted_place(home);
}

}  // namespace canigo::detail
