#include "canigo/aimd.hpp"

#include <algorithm>
#include <cmath>

namespace canigo {

namespace {

constexpr double least_age = 100e6, second = 1e9;

}  // namespace

aimd_control::aimd_control(const aimd& o, const limit_bounds& b) noexcept
    : limit_{static_cast<double>(b.initial)},
      least_{static_cast<double>(b.least)},
      most_{static_cast<double>(b.most)},
      target_{static_cast<double>(o.target.count())} {}

std::uint64_t aimd_control::record(const limit_sample& s, time_point now) noexcept {
  if (s.outcome == sample_outcome::cancelled && static_cast<double>(s.latency.count()) <= target_) return limit();
  if (is_settling_) {
    const duration passing{static_cast<duration::rep>(last_)};
    if (now < saturating_add(fell_at_, passing) || static_cast<double>(s.in_flight) > limit_) return limit();
    is_settling_ = false;
    window_.open(now);
    return limit();
  }
  if (!window_.is_open()) window_.open(now);
  window_.add(s.latency, s.outcome != sample_outcome::dropped, s.in_flight);
  const double age = window_.age_ns(now);
  if (age >= std::max(least_age, std::min(last_, second)) &&
      static_cast<double>(window_.all()) >= std::clamp(5 * limit_, 50., 250.)) {
    close(now);
  }
  return limit();
}

void aimd_control::close(time_point now) noexcept {
  const bool drops = window_.drops_too_many();
  if (window_.ok() > 0) last_ = window_.median_ns();
  if (drops || last_ > target_) {
    const double share = drops ? .9 : std::clamp(target_ / last_, .5, .9);
    return set(limit_ * share, drops ? limit_reason::dropped : limit_reason::slow, now);
  }
  if (window_.peak() < limit()) {
    const bool is_unused = static_cast<double>(window_.peak()) < limit_ / 2;
    return set(limit_, is_unused ? limit_reason::unused : limit_reason::steady, now);
  }
  set(limit_ + std::max(1., std::sqrt(limit_) / 2), limit_reason::fast, now);
}

void aimd_control::set(double limit, limit_reason why, time_point now) noexcept {
  const double before = limit_;
  limit_ = std::clamp(limit, least_, most_);
  decision_ = {why, before, limit_, now};
  is_settling_ = limit_ <= before - 1;
  fell_at_ = now;
  window_.open(now);
}

}  // namespace canigo
