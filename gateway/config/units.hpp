#pragma once

#include "gateway/config/config.hpp"

#include <cstdint>
#include <string_view>

namespace canigo::gateway {

/// Returns the first element of `u.models` that matches the model of a call; null if no element matches, or if `model`
/// is empty because the call names no model.
const model_limit* limit_of_model(const upstream& u, std::string_view model) noexcept;

/// Whether a rate of the upstream, or of one of its targets or models, counts this unit.
bool counts(const upstream& u, std::string_view unit) noexcept;

/// Returns the largest amount of a unit that one request may ask for; unlimited if no rate counts the unit. The bursts
/// of the upstream's rates allow this amount. If the set `of` has targets, the bursts of at least one of these targets
/// allow the amount, too.
std::uint64_t most_of(const upstream& u, std::string_view unit, target_set of = all_targets) noexcept;

/// Returns the smallest burst among the rates that count the unit; unlimited if no rate counts it.
std::uint64_t least_burst(const std::vector<rate_limit>& rates, std::string_view unit) noexcept;

/// Whether the target with index `i` is in the set.
constexpr bool has(target_set s, std::size_t i) noexcept { return (s >> i & 1) != 0; }

}  // namespace canigo::gateway
