#pragma once

#include "gateway/config/config.hpp"

#include <chrono>
#include <string>

namespace canigo::gateway {

/// The next instant after `now` at which the quotas of a day are whole again; for an unknown one that of Pacific time.
///
/// Source: for Pacific time the Energy Policy Act of 2005, section 110: summer time from the second Sunday of March to
/// the first Sunday of November, at 2:00 each.
std::chrono::sys_seconds next_reset(quota_reset when, std::chrono::system_clock::time_point now) noexcept;

/// The reset for people: "00:00 PT" of a day, else the time as "2026-11-29 19:14 UTC".
std::string text_of_reset(quota_reset when, std::chrono::sys_seconds reset);

}  // namespace canigo::gateway
