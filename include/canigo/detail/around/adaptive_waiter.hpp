#pragma once

#include "canigo/adaptive_permit.hpp"
#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/admission/permit_waiter.hpp"
#include "canigo/request.hpp"

#include <system_error>
#include <tuple>
#include <utility>

namespace canigo::detail {

/// A waiter whose handler takes an error code and the permit of an adaptive limit.
class adaptive_waiter : public permit_waiter {
 public:
  using permit_waiter::permit_waiter;
  using results = std::tuple<std::error_code, adaptive_permit>;
  using signature = void(std::error_code, adaptive_permit);
  using granted_type = adaptive_permit;

  static adaptive_permit granted(admission& home, const request& r) noexcept {
    return adaptive_permit{home, permit_waiter::granted(home, r)};
  }
  static adaptive_permit granted(admission& home, int = 0) noexcept {
    return adaptive_permit{home, permit_waiter::granted(home)};
  }

  results take_results() noexcept {
    auto [error, place] = permit_waiter::take_results();
    if (error) return {error, adaptive_permit{}};
    return {error, adaptive_permit{*home_, std::move(place), since()}};
  }
  static results failed(errc code) noexcept { return {make_error_code(code), adaptive_permit{}}; }
};

}  // namespace canigo::detail
