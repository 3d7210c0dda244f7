#pragma once

#include "gateway/config/config.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/policy/usage_reader.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// How much of a unit a request takes from the rates of its upstream.
struct token_amount {
  std::string_view unit;  ///< "requests", "tokens", "input_tokens" or "output_tokens"; a literal
  std::uint64_t amount = 1;

  friend bool operator==(const token_amount&, const token_amount&) = default;
};

/// An estimate times a learned ratio, rounded up.
std::uint64_t scaled(std::uint64_t tokens, double ratio) noexcept;

/// The most of a unit that a request to one of the targets `of` may ask for: see most_of(). A larger request could
/// never go.
std::uint64_t most_amount(const upstream& u, const tenant_limit* own, std::string_view unit,
                          target_set of = all_targets) noexcept;

/// The amount of each unit that a request asks of its upstream's rates: the estimate times `learned`, and of "tokens"
/// at least `least`. For a strict window `learned` counts as at least 1. The amount is at least 1, and no more than
/// most_amount(). A free request may ask for 0, and one without output for 0 of "output_tokens".
///
/// `own`: the rates of the tenant, whose bursts count, too; null: it has none. `of`: the targets that may serve it.
std::vector<token_amount> asked_amounts(const upstream& u, const tenant_limit* own, const token_estimate& e,
                                        double learned, std::uint64_t least, target_set of = all_targets);

/// The amount of a unit that a request has used, to settle the difference. An output token counts for `output_weight`
/// of "tokens".
std::uint64_t used_amount(std::string_view unit, const token_usage& used, std::uint64_t output_weight) noexcept;

}  // namespace canigo::gateway
