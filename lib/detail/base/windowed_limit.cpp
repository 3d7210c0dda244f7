#include "canigo/detail/base/windowed_limit.hpp"

#include <algorithm>

namespace canigo::detail {

windowed_limit::windowed_limit(const limit_bounds& b) noexcept
    : limit_{static_cast<double>(b.initial)},
      least_{static_cast<double>(b.least)},
      most_{static_cast<double>(b.most)} {}

bool windowed_limit::is_settling(const limit_sample& s, time_point now) noexcept {
  if (is_settling_) {
    if (now < saturating_add(fell_at_, latency()) || static_cast<double>(s.in_flight) > limit_) return true;
    is_settling_ = false;
    window_.open(now);
    return true;
  }
  if (!window_.is_open()) window_.open(now);
  return false;
}

void windowed_limit::decide(double limit, limit_reason why, time_point now) noexcept {
  const double before = limit_;
  limit_ = std::clamp(limit, least_, most_);
  decision_ = {why, before, limit_, now};
  is_settling_ = limit_ <= before - 1;
  fell_at_ = now;
  window_.open(now);
}

}  // namespace canigo::detail
