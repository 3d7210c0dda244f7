#include "canigo/knee.hpp"

#include "canigo/detail/base/random.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace canigo {

namespace {

using namespace std::chrono_literals;

constexpr double ms = 1e6, second = 1e9;
constexpr int windows_to_learn = 4;
constexpr int most_steps = 8;
constexpr double probe_share = .6;

double room(double limit) noexcept { return .75 * std::sqrt(limit) + .1 * limit; }

duration as_duration(double ns) noexcept { return duration{static_cast<duration::rep>(ns)}; }

}  // namespace

knee_control::knee_control(const limit_bounds& b, duration to_wall, std::uint64_t seed) noexcept
    : limit_{static_cast<double>(b.initial)},
      least_{static_cast<double>(b.least)},
      most_{static_cast<double>(b.most)},
      reference_{limit_},
      to_wall_{to_wall},
      random_{seed} {}

std::uint64_t knee_control::record(const limit_sample& s, time_point now) noexcept {
  if (s.outcome == sample_outcome::cancelled) {
    const double known = std::max(baseline_, last_);
    if (known == 0 || static_cast<double>(s.latency.count()) <= 2 * known) return limit();
  }
  if (is_settling_) {
    if (now < saturating_add(fell_at_, as_duration(last_)) || static_cast<double>(s.in_flight) > limit_) return limit();
    is_settling_ = false;
    window_.open(now);
    return limit();
  }
  if (!window_.is_open()) window_.open(now);
  if (!is_probing_ && now >= next_probe_ && smoothed_ > 0 && is_used()) {
    probe(limit_, now);
    return limit();
  }
  window_.add(s.latency, s.outcome != sample_outcome::dropped, s.in_flight);
  const double age = window_.age_ns(now);
  const double enough = std::clamp((is_probing_ ? 10 : 5) * limit_, 50., 250.);
  if (age >= std::max(100 * ms, std::min(2 * last_, second)) && static_cast<double>(window_.all()) >= enough) {
    close(now);
  } else if (age >= 5 * second && !is_used()) {
    window_.open(now);
  }
  return limit();
}

void knee_control::close(time_point now) noexcept {
  if (window_.drops_too_many()) return cut_to_what_succeeds(now);
  if (window_.ok() < 25) return window_.open(now);
  const double x = window_.median_ns();
  last_ = x;
  if (learned_ < windows_to_learn) return learn(x, now);
  if (is_probing_) return probe_on(x, now);
  follow(x, now);
}

/// A call that is refused frees its place at once, so the share of refusals says too much. The number of calls that
/// succeed at a time is what the callee can do.
void knee_control::cut_to_what_succeeds(time_point now) noexcept {
  if (is_probing_) schedule_probe(now);
  is_probing_ = false;
  streak_ = 0;
  if (!is_used()) return set(limit_, limit_reason::unused, now);
  const double succeed = window_.sum_ns() / window_.age_ns(now);
  set(std::clamp(succeed, limit_ / 2, .95 * limit_), limit_reason::dropped, now);
  top_ = reference_ = limit_;
  hold_until_ = saturating_add(now, as_duration(5 * second * any_of(.75, 1.25)));
}

void knee_control::learn(double x, time_point now) noexcept {
  ++learned_;
  baseline_ += (x - baseline_) / learned_;
  if (learned_ < windows_to_learn) return set(limit_, limit_reason::learning, now);
  smoothed_ = baseline_;
  if (is_used()) return probe(limit_, now);
  next_probe_ = now;
  set(limit_, limit_reason::learning, now);
}

void knee_control::probe_on(double x, time_point now) noexcept {
  if (x < .8 * probe_latency_ && probe_step_ < most_steps && limit_ > least_) {
    ++probe_step_;
    probe_latency_ = x;
    probe_limit_ = limit_;
    return set(probe_share * limit_, limit_reason::probe, now);
  }
  is_probing_ = false;
  const double measured = std::min(x, 2 * baseline_);
  const bool is_new = std::abs(measured - baseline_) > .25 * baseline_;
  baseline_ = is_new ? measured : (baseline_ + measured) / 2;
  schedule_probe(now);
  smoothed_ = 0;
  const double at_knee = probe_limit_ * baseline_ / probe_latency_ + room(probe_limit_);
  reference_ = probe_step_ > 0 ? std::min(back_, at_knee) : back_;
  set(reference_, limit_reason::measured, now);
}

void knee_control::follow(double x, time_point now) noexcept {
  if (!is_used()) {
    baseline_ += .1 * (x - baseline_);
    smoothed_ = 0;
    return set(limit_, limit_reason::unused, now);
  }
  if (x < .8 * baseline_) {
    low_sum_ += x;
    if (++low_ == 3) {
      baseline_ = low_sum_ / 3;
      low_ = 0;
      low_sum_ = 0;
    }
  } else {
    low_ = 0;
    low_sum_ = 0;
  }
  const bool is_jump = smoothed_ == 0 || x > 1.4 * smoothed_ || x * 1.4 < smoothed_;
  smoothed_ = is_jump ? x : (smoothed_ + x) / 2;
  reference_ = std::max(reference_, limit_);
  if (limit_ <= reference_ / 2) {
    if (smoothed_ > 1.25 * baseline_) return probe(reference_, now);
    reference_ = limit_;
  }
  const bool is_bound = window_.peak() >= limit();
  streak_ = is_bound && smoothed_ < 1.1 * baseline_ ? streak_ + 1 : 0;
  const double gradient = std::clamp(baseline_ / smoothed_, .5, 1.);
  const double target = limit_ * gradient + room(limit_);
  double next = limit_ + (target - limit_) / 2;
  if (smoothed_ > 2 * baseline_) next = target;
  const time_point free_from = saturating_add(hold_until_, 1s);
  if (streak_ >= 4 && now >= free_from) {
    next = limit_ + std::max(room(limit_) / 2, limit_ * std::min(.25, .03 * streak_));
  }
  if (next > limit_) {
    if (!is_bound) {
      next = limit_;
    } else if (now < hold_until_) {
      next = std::min(next, std::max(limit_, top_));
    } else if (now < free_from) {
      next = std::min(next, limit_ + 1);
    }
  }
  set(next, next > limit_ ? limit_reason::fast : next < limit_ ? limit_reason::slow : limit_reason::steady, now);
}

void knee_control::probe(double back, time_point now) noexcept {
  is_probing_ = true;
  back_ = back;
  probe_step_ = 0;
  probe_latency_ = smoothed_;
  probe_limit_ = limit_;
  set(probe_share * limit_, limit_reason::probe, now);
}

/// At the next multiple of the period on the wall clock, which all clients of a callee share.
void knee_control::schedule_probe(time_point now) noexcept {
  duration period = 30s;
  while (static_cast<double>(period.count()) < 100 * baseline_ && period < 24h) period *= 2;
  const duration wall = now.time_since_epoch() + to_wall_;
  duration past = wall % period;
  if (past < duration::zero()) past += period;
  next_probe_ = saturating_add(now, period - past + as_duration(any_of(0, 50 * ms)));
}

/// A new limit, and with it a new window. Where it is lower, that begins when the calls from before have ended.
void knee_control::set(double limit, limit_reason why, time_point now) noexcept {
  const double before = limit_;
  limit_ = std::clamp(limit, least_, most_);
  decision_ = {why, before, limit_, now};
  is_settling_ = limit_ <= before - 1;
  fell_at_ = now;
  window_.open(now);
}

double knee_control::any_of(double low, double high) noexcept {
  return low + (high - low) * static_cast<double>(detail::next_random(random_) >> 11) * 0x1p-53;
}

}  // namespace canigo
