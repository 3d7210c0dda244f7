#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The windows of a calendar. A week begins with Monday.
enum class calendar_unit : std::uint8_t { hour, day, week, month };
inline constexpr std::array<std::string_view, 4> calendar_unit_names{"hour", "day", "week", "month"};
constexpr std::string_view name_of(calendar_unit u) noexcept {
  return calendar_unit_names[static_cast<std::size_t>(u)];
}

/// From `begin` on, and before `end`.
struct calendar_window {
  std::chrono::sys_seconds begin;
  std::chrono::sys_seconds end;

  bool contains(std::chrono::sys_seconds t) const noexcept { return t >= begin && t < end; }
  friend bool operator==(const calendar_window&, const calendar_window&) = default;
};

/// Whether the system's zone database has this zone. "UTC" needs no database.
bool is_time_zone(const std::string& name) noexcept;

/// The window that `at` is in, by the clocks of the zone. The windows of a unit follow each other without a gap.
///
/// A day that the clocks change in has 23 or 25 hours. If midnight comes twice, the day begins with the first one; if
/// the clocks skip it, with the change. A change by less than an hour ends the hour that it is in.
/// Precondition: is_time_zone(zone).
calendar_window window_of(calendar_unit u, const std::string& zone, std::chrono::sys_seconds at);

/// "2026-11-30 00:00 CET", by the clocks of the zone.
std::string local_text(const std::string& zone, std::chrono::sys_seconds at);

}  // namespace canigo::gateway
