#include "canigo/error.hpp"
#include "canigo/retry_policy.hpp"

#include <algorithm>

namespace canigo {

namespace {

const retry_budget::options& checked(const retry_budget::options& o) {
  if (o.percent > 1000) detail::throw_invalid("retry_budget.percent", o.percent, "0 to 1000");
  if (o.most < 1 || o.most < o.reserve)
    detail::throw_invalid("retry_budget.most", o.most, "1 or more, and at least `reserve`");
  return o;
}

}  // namespace

retry_budget::retry_budget(const options& o)
    : balance_{std::uint64_t{checked(o).reserve} * 100}, percent_{o.percent}, most_{std::uint64_t{o.most} * 100} {}

void retry_budget::pay_in() noexcept {
  std::uint64_t b = balance_.load(std::memory_order_relaxed);
  while (b < most_) {
    if (balance_.compare_exchange_weak(b, std::min(b + percent_, most_), std::memory_order_relaxed)) return;
  }
}

bool retry_budget::try_take() noexcept {
  std::uint64_t b = balance_.load(std::memory_order_relaxed);
  while (b >= 100) {
    if (balance_.compare_exchange_weak(b, b - 100, std::memory_order_relaxed)) return true;
  }
  return false;
}

}  // namespace canigo
