#include "canigo/algorithms/knee.hpp"

#include "canigo/detail/base/random.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace canigo {

namespace {

using namespace std::chrono_literals;

constexpr double ms = 1e6, second = 1e9;
constexpr int windows_to_learn = 4;
constexpr int most_steps = 8;
constexpr double probe_share = .6;
// if a window has fewer calls than this number, a large share of dropped calls in it may be chance
constexpr std::uint64_t drops_need = 250;
constexpr std::uint64_t least_ok = 25;
constexpr std::uint64_t starved_from = 20;

double room(double limit) noexcept { return .75 * std::sqrt(limit) + .1 * limit; }

duration as_duration(double ns) noexcept { return duration{static_cast<duration::rep>(ns)}; }

}  // namespace

knee_control::knee_control(const limit_bounds& b, duration to_wall, std::uint64_t seed) noexcept
    : windowed_limit{b}, reference_{limit_}, to_wall_{to_wall}, random_{seed} {}

std::uint64_t knee_control::record(const limit_sample& s, time_point now) noexcept {
  if (s.outcome == sample_outcome::cancelled) {
    double known = std::max(baseline_, last_);
    if (known == 0) known = window_.mean_ns();
    if (known == 0) return limit();
    if (static_cast<double>(s.latency.count()) <= 2 * known) {
      give_up_early(s, now);
      return limit();
    }
  }
  if (is_settling(s, now)) return limit();
  if (!is_probing_ && now >= next_probe_ && smoothed_ > 0 && is_used()) {
    probe(limit_, now);
    return limit();
  }
  window_.add(s.latency, s.outcome != sample_outcome::dropped, s.in_flight);
  const double age = window_.age_ns(now);
  const double enough = std::clamp((is_probing_ ? 10 : 5) * limit_, 50., 250.);
  if (age >= std::max(100 * ms, std::min(2 * last_, second)) && static_cast<double>(window_.all()) >= enough) {
    const bool is_chance = drops_too_many() && window_.all() < drops_need && age < 2 * second;
    if (!is_chance) close(now);
  } else if (age >= 5 * second && !is_used()) {
    window_.open(now);
  }
  return limit();
}

void knee_control::close(time_point now) noexcept {
  const bool has_raised_for_nothing = has_raised_in_vain(now);
  const double raised_from = std::exchange(raised_from_, 0);
  if (drops_too_many()) return heed_drops(now);
  if (has_raised_for_nothing) return take_raise_back(raised_from, now);
  usual_drops_ += .1 * std::min(window_.dropped_share() - usual_drops_, 0.);
  if (window_.ok() < least_ok) return window_.open(now);
  const double x = window_.median_ns();
  last_ = x;
  if (x < 1.25 * baseline_ || learned_ == 0) {
    const double now_carries = window_.sum_ns() / window_.age_ns(now);
    carried_ = std::max(now_carries, carried_ + .02 * (now_carries - carried_));
  }
  if (learned_ < windows_to_learn) return learn(x, now);
  if (is_probing_) return probe_on(x, now);
  follow(x, now);
}

bool knee_control::drops_too_many() const noexcept {
  return window_.dropped_share() > usual_drops_ + std::max(.05, usual_drops_ / 2);
}

/// Handles a window with too many dropped calls. Lowers the limit as a trial, because only a lower limit shows whether
/// the load causes the drops. If the lower limit has had no effect, restores the old limit.
void knee_control::heed_drops(time_point now) noexcept {
  streak_ = 0;
  if (is_probing_) {
    is_probing_ = false;
    schedule_probe(now);
    return set(back_, limit_reason::measured, now);
  }
  if (!is_used()) return set(limit_, limit_reason::unused, now);
  if (now >= trial_until_ || limit_ >= trial_back_) trial_back_ = 0;
  if (!has_cut_in_vain()) return cut_to_what_succeeds(now);
  usual_drops_ = std::min(window_.dropped_share(), .5);
  hold_until_ = now;
  set(std::exchange(trial_back_, 0), limit_reason::unrelated, now);
}

/// Whether a clearly lower limit has had no effect: as many calls are dropped as before, and the other calls are as
/// fast as before.
bool knee_control::has_cut_in_vain() const noexcept {
  if (trial_back_ == 0 || limit_ > .75 * trial_limit_ || window_.ok() < least_ok) return false;
  const bool is_slow = baseline_ > 0 && window_.median_ns() > 1.5 * baseline_;
  return !is_slow && window_.dropped_share() > .5 * trial_share_ &&
         window_.dropped_time_share() > .8 * trial_time_share_;
}

/// Lowers the limit to the number of calls that succeed at the same time, which is the callee's capacity. The limit is
/// not lowered by the share of refused calls. That share overstates the load, because a refused call frees its slot
/// immediately. If hardly any calls succeed, the number of successes says nothing about the capacity. In this case the
/// limit is set to half of carried_, the number of concurrent calls that succeeded before. But the new limit is at
/// least half of the old limit, and at most the old limit.
void knee_control::cut_to_what_succeeds(time_point now) noexcept {
  if (trial_back_ == 0) trial_back_ = limit_;
  if (trial_back_ == limit_ || limit_ <= .75 * trial_limit_) {
    trial_limit_ = limit_;
    trial_share_ = window_.dropped_share();
    trial_time_share_ = window_.dropped_time_share();
  }
  const double succeed = window_.sum_ns() / window_.age_ns(now);
  double next = std::clamp(succeed, limit_ / 2, .95 * limit_);
  if (window_.ok() < least_ok) next = std::min(limit_, std::max(limit_ / 2, carried_ / 2));
  trial_until_ = saturating_add(now, 30s);
  set(next, limit_reason::dropped, now);
  top_ = reference_ = limit_;
  hold_until_ = saturating_add(now, as_duration(5 * second * any_of(.75, 1.25)));
}

/// Handles a call that its caller gave up before the call could end. A single such call says nothing about the callee.
/// But if most callers give up after a long wait for a slot, the limit is raised. Callers may also cancel for another
/// reason: for example, they start several calls and cancel the slower ones. Usually these calls have not waited long
/// for a slot. If these calls have waited long, hardly more calls succeed with the raised limit, and the raise is taken
/// back.
void knee_control::give_up_early(const limit_sample& s, time_point now) noexcept {
  if (s.in_flight < limit() || s.waited <= s.latency || limit_ >= most_ || now < raise_again_at_) return;
  ++given_up_early_;
  const bool is_telling = window_.ok() >= least_ok;
  const double age = window_.age_ns(now);
  const double least_age = is_telling ? std::max(100 * ms, std::min(2 * last_, second)) : 100 * ms;
  if (given_up_early_ < starved_from || given_up_early_ <= window_.all() || age < least_age) return;
  if (has_raised_in_vain(now)) return take_raise_back(raised_from_, now);
  if (last_ == 0) last_ = window_.mean_ns();
  if (is_probing_) schedule_probe(now);
  const double from = std::exchange(is_probing_, false) ? back_ : limit_;
  raised_from_ = from;
  raised_rate_ = is_telling ? static_cast<double>(window_.ok()) / age : 0;
  set(from + std::max(1., from / 2), limit_reason::starved, now);
}

/// Whether the last raise of the limit has had no effect: hardly more calls succeed than before. The limit was raised
/// because callers waited too long for a slot.
bool knee_control::has_raised_in_vain(time_point now) const noexcept {
  return raised_from_ > 0 && limit_ > raised_from_ && window_.ok() >= least_ok &&
         static_cast<double>(window_.ok()) < 1.1 * raised_rate_ * window_.age_ns(now);
}

void knee_control::take_raise_back(double to, time_point now) noexcept {
  raise_again_at_ = saturating_add(now, 30s);
  set(to, limit_reason::unrelated, now);
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

/// Sets the time of the next probe: the next multiple of the probe period (30 s or more) on the wall clock, plus at
/// most 50 ms. So all clients of a callee probe at almost the same time.
void knee_control::schedule_probe(time_point now) noexcept {
  duration period = 30s;
  while (static_cast<double>(period.count()) < 100 * baseline_ && period < 24h) period *= 2;
  const duration wall = now.time_since_epoch() + to_wall_;
  next_probe_ = saturating_add(now, period - wall % period + as_duration(any_of(0, 50 * ms)));
}

void knee_control::set(double limit, limit_reason why, time_point now) noexcept {
  decide(limit, why, now);
  given_up_early_ = 0;
}

double knee_control::any_of(double low, double high) noexcept {
  return low + (high - low) * static_cast<double>(detail::next_random(random_) >> 11) * 0x1p-53;
}

}  // namespace canigo
