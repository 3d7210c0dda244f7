#pragma once

#include "gateway/config/config.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/policy/usage_reader.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// An amount of one unit. A request takes this amount from each rate of the upstream that counts this unit.
struct token_amount {
  std::string_view unit;  ///< one of rate_units; must be a literal
  std::uint64_t amount = 1;

  friend bool operator==(const token_amount&, const token_amount&) = default;
};

/// Returns `tokens`, an estimate, multiplied by `ratio`, a learned ratio, and rounded up.
std::uint64_t scaled(std::uint64_t tokens, double ratio) noexcept;

/// Returns the largest amount of a unit that a request to one of the targets `of` may ask for: see most_of(). The
/// limits could never grant a larger amount. `of_model`: the limits of the request's model; null: there are none.
std::uint64_t most_amount(const upstream& u, const tenant_limit* own, std::string_view unit,
                          target_set of = all_targets, const model_limit* of_model = nullptr) noexcept;

/// Returns the amount of each unit that a request takes from its upstream's rates: the estimate times the learned ratio
/// `learned`, and at least `least` of "tokens". For a strict window, a `learned` below 1 counts as 1. Each amount is at
/// least 1 and at most most_amount(). But a request that uses no tokens (token_estimate::is_free) may take 0 of each
/// unit. A request without output may take 0 of "output_tokens", and each request may take 0 of "usd".
///
/// `own`: the rates of the tenant, whose bursts also bound the amounts; null: the tenant has none. `of`: the targets
/// that may serve the request. `cost`: the amount of "usd".
std::vector<token_amount> asked_amounts(const upstream& u, const tenant_limit* own, const token_estimate& e,
                                        double learned, std::uint64_t least, target_set of = all_targets,
                                        micro_usd cost = 0);

/// Returns the amount of a unit that a request has used. One output token counts as `output_weight` units of "tokens".
std::uint64_t used_amount(std::string_view unit, const token_usage& used, std::uint64_t output_weight) noexcept;

}  // namespace canigo::gateway
