#include "canigo/algorithms/aimd.hpp"

#include <algorithm>
#include <cmath>

namespace canigo {

namespace {

constexpr double least_age_of_window = 100e6, most_age_of_window = 1e9;

}  // namespace

aimd_control::aimd_control(const aimd& o, const limit_bounds& b) noexcept
    : windowed_limit{b}, target_{static_cast<double>(o.target.count())} {}

std::uint64_t aimd_control::record(const limit_sample& s, time_point now) noexcept {
  if (s.outcome == sample_outcome::cancelled && static_cast<double>(s.latency.count()) <= target_) return limit();
  if (is_settling(s, now)) return limit();
  window_.add(s.latency, s.outcome != sample_outcome::dropped, s.in_flight);
  const double age = window_.age_ns(now);
  if (age >= std::max(least_age_of_window, std::min(last_, most_age_of_window)) &&
      static_cast<double>(window_.all()) >= std::clamp(5 * limit_, 50., 250.)) {
    close(now);
  }
  return limit();
}

void aimd_control::close(time_point now) noexcept {
  const bool drops = window_.dropped_share() > .05;
  if (window_.ok() > 0) last_ = window_.median_ns();
  if (drops || last_ > target_) {
    const double share = drops ? .9 : std::clamp(target_ / last_, .5, .9);
    return decide(limit_ * share, drops ? limit_reason::dropped : limit_reason::slow, now);
  }
  if (window_.peak() < limit()) {
    const bool is_unused = static_cast<double>(window_.peak()) < limit_ / 2;
    return decide(limit_, is_unused ? limit_reason::unused : limit_reason::steady, now);
  }
  decide(limit_ + std::max(1., std::sqrt(limit_) / 2), limit_reason::fast, now);
}

}  // namespace canigo
