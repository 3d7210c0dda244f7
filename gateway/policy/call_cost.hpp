#pragma once

#include "gateway/config/price_list.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/policy/usage_reader.hpp"

namespace canigo::gateway {

/// The cost of a call that has used these tokens, rounded up to a whole micro-dollar.
micro_usd cost_of(const price& p, const token_usage& used) noexcept;

/// The cost that is expected of a call: that of its estimate times `learned`, which counts as at least 1. Of calls that
/// all begin before one of them has told its usage, some use more than calls do on average.
micro_usd expected_cost(const price& p, const token_estimate& e, double learned) noexcept;

}  // namespace canigo::gateway
