#pragma once

#include "gateway/config/config.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/policy/usage_reader.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// How much of a unit a request takes of its upstream's rates.
struct token_amount {
  std::string_view unit;  ///< "requests", "tokens", "input_tokens" or "output_tokens"; a literal
  std::uint64_t amount = 1;

  friend bool operator==(const token_amount&, const token_amount&) = default;
};

/// What a request asks for of each unit that its upstream's rates count, once each: the estimate times `ratio`, of
/// "tokens" at least `least`; never 0, and never more than the least burst of the unit, as it could never go.
std::vector<token_amount> asked_amounts(const upstream& u, const token_estimate& e, double ratio, std::uint64_t least);

/// What it has used of a unit, to settle the difference.
std::uint64_t used_amount(std::string_view unit, const token_usage& used) noexcept;

}  // namespace canigo::gateway
