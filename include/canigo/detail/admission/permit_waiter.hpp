#pragma once

#include "canigo/detail/admission/waiter.hpp"
#include "canigo/error.hpp"
#include "canigo/permit.hpp"
#include "canigo/request.hpp"

#include <optional>
#include <system_error>
#include <tuple>

namespace canigo::detail {

/// A waiter whose handler takes an error code and the granted permit.
class permit_waiter : public waiter {
 public:
  using waiter::waiter;
  using results = std::tuple<std::error_code, permit>;
  using signature = void(std::error_code, permit);
  using granted_type = permit;

  // These functions need the engine, which public headers do not include. So permit_grant.hpp defines them, for use in
  // the library only.
  static inline permit granted(admission& home, const request& r) noexcept;
  /// The permit of a request that named only a priority class.
  static inline permit granted(admission& home, int = 0) noexcept;
  static inline permit granted_place(admission& home) noexcept;

  results take_results() noexcept;
  static results failed(errc code) noexcept { return {make_error_code(code), permit{}}; }
};

}  // namespace canigo::detail
