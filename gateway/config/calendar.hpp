#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The length of a window: the period for which the amount of a budget counts. A week begins with Monday.
enum class calendar_unit : std::uint8_t { hour, day, week, month };
inline constexpr std::array<std::string_view, 4> calendar_unit_names{"hour", "day", "week", "month"};
constexpr std::string_view name_of(calendar_unit u) noexcept {
  return calendar_unit_names[static_cast<std::size_t>(u)];
}

/// A window includes `begin` and excludes `end`.
struct calendar_window {
  std::chrono::sys_seconds begin;
  std::chrono::sys_seconds end;

  bool contains(std::chrono::sys_seconds t) const noexcept { return t >= begin && t < end; }
  friend bool operator==(const calendar_window&, const calendar_window&) = default;
};

/// Whether the system's time zone database has a zone with this name. "UTC" needs no database.
bool is_time_zone(const std::string& name) noexcept;

/// Returns the window that contains `at`, by the local time of the zone. Consecutive windows have no gap between them.
///
/// A day on which the clocks change has 23 or 25 hours. If midnight occurs twice, the day begins at the first one. If
/// the clocks skip midnight, the day begins at the change. A change of the clocks by less than an hour ends the current
/// hour early. Precondition: is_time_zone(zone).
calendar_window window_of(calendar_unit u, const std::string& zone, std::chrono::sys_seconds at);

/// Formats `at` in the local time of the zone, such as "2026-11-30 00:00 CET".
std::string local_text(const std::string& zone, std::chrono::sys_seconds at);

}  // namespace canigo::gateway
