#pragma once

#include "gateway/config/config.hpp"

#include <cstdint>
#include <string_view>

namespace canigo::gateway {

/// Whether a rate of the upstream, or of one of its targets, counts this unit.
bool counts(const upstream& u, std::string_view unit) noexcept;

/// The most of a unit that one request may ask for; unlimited: no rate counts it. Each rate of the upstream bounds it
/// by its burst, and so do the rates of the target that serves it: of the targets `of`, the one that allows most.
std::uint64_t most_of(const upstream& u, std::string_view unit, target_set of = all_targets) noexcept;

/// The least burst of the rates that count a unit; unlimited: none does.
std::uint64_t least_burst(const std::vector<rate_limit>& rates, std::string_view unit) noexcept;

/// Whether target `i` is in the set.
constexpr bool has(target_set s, std::size_t i) noexcept { return (s >> i & 1) != 0; }

}  // namespace canigo::gateway
