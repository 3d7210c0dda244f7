#pragma once

#include "gateway/config/calendar.hpp"
#include "gateway/config/money.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The treatment of a call that exceeds a budget.
enum class over_budget : std::uint8_t {
  refuse,  ///< the call is refused until the next window
  queue,   ///< the call waits for money
  warn,    ///< the call is let through; the sums are only counted and shown
};
inline constexpr std::array<std::string_view, 3> over_budget_names{"refuse", "queue", "warn"};
constexpr std::string_view name_of(over_budget o) noexcept { return over_budget_names[static_cast<std::size_t>(o)]; }

/// The amount of money that calls may cost in each window of a calendar.
struct budget_options {
  micro_usd most = 0;
  calendar_unit per = calendar_unit::day;
  std::string zone = "UTC";
  over_budget at = over_budget::refuse;

  friend bool operator==(const budget_options&, const budget_options&) = default;
};

}  // namespace canigo::gateway
