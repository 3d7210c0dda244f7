#pragma once

#include "canigo/rate.hpp"

#include <vector>

namespace canigo::gateway {

/// Returns the rates that a limiter must keep so that the upstream gets calls at no more than the configured rates. The
/// upstream counts calls when they arrive.
///
/// The limiter's window counts grants. A call reaches the upstream some time after its grant, and a later call may be
/// faster. So a window of the upstream may contain calls that were granted before the window began. A strict window of
/// the limiter is therefore a fiftieth longer than configured, at most by a quarter of a second.
std::vector<rate_limit> on_the_wire(std::vector<rate_limit> rates);

/// Whether a limiter treats both rates alike: they have the same speed and, if they are strict, the same window.
bool is_same_rate(const rate_limit& a, const rate_limit& b) noexcept;

}  // namespace canigo::gateway
