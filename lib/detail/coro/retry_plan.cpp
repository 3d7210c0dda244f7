#include "canigo/detail/coro/retry_plan.hpp"

#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include <asio/error.hpp>

#include <algorithm>
#include <optional>
#include <system_error>

namespace canigo::detail {

namespace {

constexpr std::uint32_t usual_attempts = 3;

/// Asks the condition whether the failure may be retried. Returns the shortest delay before the retry that the
/// condition allows, 0 without a condition. Returns nothing if the condition forbids the retry, or throws.
std::optional<duration> asked(const retry_condition& condition, const std::exception_ptr& failure) noexcept {
  if (!condition) return duration::zero();
  try {
    return condition(failure);
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace

retry_plan::retry_plan(const retry_policy& policy, time_point deadline) : policy_{policy}, deadline_{deadline} {
  check(policy.backoff, "retry_policy.backoff");
  if (policy_.attempts == 0) policy_.attempts = usual_attempts;
}

void retry_plan::begin() noexcept {
  if (policy_.budget != nullptr) policy_.budget->pay_in();
}

time_point retry_plan::again_at(const std::exception_ptr& failure, time_point now, std::uint64_t random) noexcept {
  if (attempt_ >= policy_.attempts || is_aborted(failure)) return time_point::max();
  const std::optional<duration> least = asked(policy_.retry_if, failure);
  if (!least) return time_point::max();
  const time_point at = saturating_add(now, std::max(policy_.backoff.delay(attempt_, random), *least));
  if (at >= deadline_) return time_point::max();
  if (policy_.budget != nullptr && !policy_.budget->try_take()) return time_point::max();
  ++attempt_;
  return at;
}

bool is_aborted(const std::exception_ptr& failure) noexcept {
  try {
    std::rethrow_exception(failure);
  } catch (const std::system_error& e) {
    return e.code() == net::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

}  // namespace canigo::detail
