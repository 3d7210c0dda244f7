#pragma once

#include "canigo/time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace canigo::gateway {

/// The cause of a pause. During a pause an upstream, or one of its targets, gets no call.
enum class pause_cause : std::uint8_t {
  upstream,   ///< a response of the upstream has asked for a pause
  breaker,    ///< the circuit breaker has opened
  operator_,  ///< an operator has paused the upstream or the target
  key,        ///< a target has answered 401 or 402, so it rejects the API key
  failures,   ///< several calls in a row have failed at a target
};
inline constexpr std::array<std::string_view, 5> pause_cause_names{"upstream", "breaker", "operator", "key",
                                                                   "failures"};

/// The pauses of an upstream or a target, one for each cause. The upstream or target gets no call while at least one
/// pause lasts. This class is a plain value type.
class pause_book {
 public:
  void set(pause_cause why, time_point until) noexcept { ends_[index(why)] = until; }
  void end(pause_cause why) noexcept { ends_[index(why)] = time_point::min(); }
  /// Moves the end of the pause with this cause to `until`, if `until` is later than the present end.
  void extend(pause_cause why, time_point until) noexcept {
    time_point& end = ends_[index(why)];
    end = std::max(end, until);
  }

  time_point until(pause_cause why) const noexcept { return ends_[index(why)]; }
  /// Returns the end of the pause that ends last; min() if there is no pause.
  time_point until() const noexcept { return *std::ranges::max_element(ends_); }

 private:
  static std::size_t index(pause_cause why) noexcept { return static_cast<std::size_t>(why); }

  static constexpr time_point none = time_point::min();

  std::array<time_point, pause_cause_names.size()> ends_{none, none, none, none, none};
};

}  // namespace canigo::gateway
