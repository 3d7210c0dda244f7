#pragma once

#include "gateway/config/config.hpp"

#include <cstdint>
#include <string_view>

namespace canigo::gateway {

/// Returns the first element of the upstream's limits of models that matches `model`; null if no element matches, or if
/// the call names no model.
const model_limit* limit_of_model(const upstream& u, std::string_view model) noexcept;

/// Whether a rate of the upstream, or of one of its targets or models, counts this unit.
bool counts(const upstream& u, std::string_view unit) noexcept;

/// Returns the largest amount of a unit that one request may ask for; unlimited if no rate counts the unit. The bursts
/// of the upstream's rates bound it. So do the bursts of the target's rates; the target in `of` that allows most
/// counts.
std::uint64_t most_of(const upstream& u, std::string_view unit, target_set of = all_targets) noexcept;

/// Returns the smallest burst of the rates that count a unit; unlimited if no rate does.
std::uint64_t least_burst(const std::vector<rate_limit>& rates, std::string_view unit) noexcept;

/// Whether target `i` is in the set.
constexpr bool has(target_set s, std::size_t i) noexcept { return (s >> i & 1) != 0; }

}  // namespace canigo::gateway
