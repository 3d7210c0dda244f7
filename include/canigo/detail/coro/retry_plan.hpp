#pragma once

#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"

#include <cstdint>
#include <exception>

namespace canigo::detail {

/// Decides for retry() whether and when another attempt follows. It has no executor, and takes the time as an argument.
class retry_plan {
 public:
  /// Throws errc::invalid_argument for a policy with a field out of range.
  retry_plan(const retry_policy& policy, time_point deadline);

  /// The number of the current or next attempt, counted from 1.
  std::uint32_t attempt() const noexcept { return attempt_; }

  /// Call it before the first attempt. If the policy has a retry budget, adds a part of a retry to it: see
  /// retry_budget::pay_in().
  void begin() noexcept;
  /// The instant of the next attempt after a failure at `now`; time_point::max() if no attempt follows. `random` is any
  /// 64 random bits.
  time_point again_at(const std::exception_ptr& failure, time_point now, std::uint64_t random) noexcept;

 private:
  retry_policy policy_;
  time_point deadline_;
  std::uint32_t attempt_ = 1;
};

/// Whether an operation ended with operation_aborted.
bool is_aborted(const std::exception_ptr& failure) noexcept;

}  // namespace canigo::detail
