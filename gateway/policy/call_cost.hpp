#pragma once

#include "gateway/config/price_list.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/policy/usage_reader.hpp"

namespace canigo::gateway {

/// The cost of a call that has used these tokens, rounded up to a whole micro-dollar.
micro_usd cost_of(const price& p, const token_usage& used) noexcept;

/// Returns the expected cost of a call: the cost of its estimated tokens times `learned`, the ratio of used to
/// estimated tokens. A `learned` below 1 counts as 1, because several calls may begin before one of them has reported
/// its usage, and may use more than the average call.
micro_usd expected_cost(const price& p, const token_estimate& e, double learned) noexcept;

/// Whether an answer with this status is free: providers do not charge for errors.
constexpr bool is_free_of_charge(int status) noexcept { return status >= 400; }

}  // namespace canigo::gateway
