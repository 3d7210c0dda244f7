#pragma once

#include "gateway/config/calendar.hpp"
#include "gateway/config/money.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The treatment of a call whose cost exceeds the money that is left in a budget.
enum class over_budget : std::uint8_t {
  refuse,  ///< the call is refused
  queue,   ///< the call waits until the budget has enough money
  warn,    ///< the call is let through; the budget's sums are only counted and shown
};
inline constexpr std::array<std::string_view, 3> over_budget_names{"refuse", "queue", "warn"};
constexpr std::string_view name_of(over_budget o) noexcept { return over_budget_names[static_cast<std::size_t>(o)]; }

/// How much money calls may cost in each window of a calendar, such as a day.
struct budget_options {
  micro_usd most = 0;
  calendar_unit per = calendar_unit::day;
  std::string zone = "UTC";
  over_budget at = over_budget::refuse;

  friend bool operator==(const budget_options&, const budget_options&) = default;
};

}  // namespace canigo::gateway
