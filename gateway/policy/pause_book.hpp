#pragma once

#include "canigo/time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace canigo::gateway {

/// The reason why an upstream gets no call for a while.
enum class pause_cause : std::uint8_t { upstream, breaker, operator_ };
inline constexpr std::array<std::string_view, 3> pause_cause_names{"upstream", "breaker", "operator"};

/// The pauses of an upstream, one for each cause. The upstream gets no call as long as any of them lasts. A value.
class pause_book {
 public:
  void set(pause_cause why, time_point until) noexcept { ends_[index(why)] = until; }
  void end(pause_cause why) noexcept { ends_[index(why)] = time_point::min(); }
  /// Makes a pause longer, never shorter.
  void extend(pause_cause why, time_point until) noexcept {
    time_point& end = ends_[index(why)];
    end = std::max(end, until);
  }

  time_point until(pause_cause why) const noexcept { return ends_[index(why)]; }
  /// The end of the last pause; min(): there is none.
  time_point until() const noexcept { return *std::ranges::max_element(ends_); }

 private:
  static std::size_t index(pause_cause why) noexcept { return static_cast<std::size_t>(why); }

  std::array<time_point, pause_cause_names.size()> ends_{time_point::min(), time_point::min(), time_point::min()};
};

}  // namespace canigo::gateway
