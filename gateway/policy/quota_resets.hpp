#pragma once

#include "gateway/config/config.hpp"

#include <chrono>
#include <string>

namespace canigo::gateway {

/// Returns the next instant after `now` at which daily quotas are full again. The value `unknown` counts as Pacific
/// time.
///
/// Source: Energy Policy Act of 2005, section 110. Pacific summer time lasts from the second Sunday of March to the
/// first Sunday of November, and changes at 2:00.
std::chrono::sys_seconds next_reset(quota_reset when, std::chrono::system_clock::time_point now) noexcept;

/// Formats the time of a reset for people: "00:00 PT" for a daily reset; any other time as "2026-11-29 19:14 UTC".
std::string text_of_reset(quota_reset when, std::chrono::sys_seconds reset);

}  // namespace canigo::gateway
