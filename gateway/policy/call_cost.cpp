#include "gateway/policy/call_cost.hpp"

#include "canigo/time.hpp"

#include "gateway/policy/token_amounts.hpp"

#include <algorithm>
#include <cstdint>

namespace canigo::gateway {
micro_usd cost_of(const price& p, const token_usage& used) noexcept {
  constexpr detail::uint128 million = 1'000'000;
  const std::uint64_t cached = std::min(used.cached_input, used.input);
  const detail::uint128 of_tokens = detail::uint128{used.input - cached} * p.input +
                                    (detail::uint128{cached} + used.more_cached_input) * p.cached_input +
                                    detail::uint128{used.output} * p.output;
  const detail::uint128 all = (of_tokens + million - 1) / million + p.per_call;
  return static_cast<micro_usd>(std::min<detail::uint128>(all, most_usd));
}

micro_usd expected_cost(const price& p, const token_estimate& e, double learned) noexcept {
  if (e.is_free) return 0;
  const double ratio = std::max(learned, 1.0);
  return cost_of(p, {scaled(e.input, ratio), scaled(e.output, ratio)});
}

}  // namespace canigo::gateway
