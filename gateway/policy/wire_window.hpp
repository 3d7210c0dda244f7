#pragma once

#include "canigo/rate.hpp"

#include <vector>

namespace canigo::gateway {

/// The rates of a configuration as a limiter must keep them, so that they hold where the upstream counts.
///
/// The limiter's window counts grants. From there to the upstream a call takes a while, and a later one may be faster.
/// So a window of the upstream may hold calls that were granted before it. A strict window is therefore kept a fiftieth
/// longer than it is written, and a quarter of a second at most.
std::vector<rate_limit> on_the_wire(std::vector<rate_limit> rates);

/// Whether a limiter treats both rates alike: they have the same speed, and strict rates also have the same window.
bool is_same_rate(const rate_limit& a, const rate_limit& b) noexcept;

}  // namespace canigo::gateway
