#include "gateway/policy/wire_window.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace canigo::gateway {

std::vector<rate_limit> on_the_wire(std::vector<rate_limit> rates) {
  constexpr duration most = std::chrono::milliseconds{250};
  constexpr int part = 50;
  for (rate_limit& r : rates) {
    if (r.window != rate_window::strict) continue;
    const duration period = r.rate.period();
    // Extends the period by 1/50, at most by 250 ms, and not beyond the longest duration that can be represented.
    r.rate = rate{r.rate.tokens(), period + std::min({period / part, most, duration::max() - period})};
  }
  return rates;
}

bool is_same_rate(const rate_limit& a, const rate_limit& b) noexcept {
  if (a.window != rate_window::strict) return a.rate == b.rate;
  return a.rate.tokens() == b.rate.tokens() && a.rate.period() == b.rate.period();
}

}  // namespace canigo::gateway
