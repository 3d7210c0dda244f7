#pragma once

#include "gateway/config/calendar.hpp"
#include "gateway/policy/budget_ledger.hpp"

#include <cstddef>
#include <map>
#include <string>

namespace canigo::gateway {

/// The windows of one budget that are kept in memory.
struct budget_ledger::account {
  /// With this number of windows, a budget per hour still has its windows in memory after the clock has stepped back by
  /// a day.
  static constexpr std::size_t most_windows = 64;

  std::string name;
  std::string calendar;
  calendar_window now{};  // the window that contains the instant passed to the last open()
  std::map<instant, sum> windows;

  spent_store::window of(instant begin) const noexcept { return {name, calendar, begin}; }
};

}  // namespace canigo::gateway
