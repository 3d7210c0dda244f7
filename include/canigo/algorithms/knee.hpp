#pragma once

#include "canigo/algorithms/limit_sample.hpp"
#include "canigo/detail/base/windowed_limit.hpp"
#include "canigo/time.hpp"

#include <cstdint>

namespace canigo {

/// The option for an adaptive limit that finds the knee: the largest number of concurrent calls at which the latency is
/// still close to that of an idle callee. It needs no settings.
struct knee {};

/// The algorithm of an adaptive limit that looks for the knee of the latency. It is a value without a clock and a lock.
///
/// It evaluates windows of at least 50 calls and 100 ms. It compares the smoothed median latency R with a baseline r0.
/// The limit L moves towards L·r0/R + H, where H = 0.75·√L + L/10 leaves room for a queue at the callee.
///
/// If the share of dropped calls exceeds its usual value by 5 percentage points, L falls to the number of calls that
/// succeed concurrently, but not below half of L. If the lower limit does not reduce the share of drops, and the
/// latency is as good as before, load is not the cause of the drops. Then L returns to its former value, and the
/// present share of drops becomes the usual value. While hardly any call succeeds, L stays above half of the greatest
/// number of calls that succeeded concurrently before.
///
/// Probes measure the baseline: the limit falls to 0.6·L for one window, and then falls further as long as that
/// shortens the latency. Probes start twice a minute, or less often if the baseline exceeds 0.3 s. Probes are aligned
/// to the wall clock, so all clients of one callee probe at the same time. Otherwise each client would measure the
/// queue that the other clients cause.
///
/// A cancelled call counts only if it ran for more than twice the latency. If most calls at the limit are cancelled
/// after they had waited longer than they ran, L grows by half. The callers of such calls lost most of their time in
/// the wait for a slot. If hardly more calls succeed with the greater L, L returns to its former value, and does not
/// grow in this way for 30 s. So callers may start several calls and cancel the slower ones.
///
/// Source: found by simulation; docs/policies.md has the results, and tests/adaptive repeats them. The gradient r0/R is
/// that of Netflix' concurrency-limits, with the room H for a queue. The probes are those of BBR and Envoy.
/// Threads: not thread-safe; its owner must hold a lock. Takes constant time. Allocates: never.
class knee_control : public detail::windowed_limit {
 public:
  /// `to_wall`: the time to add to an instant of the time source to get the wall-clock time since 1970.
  knee_control(const limit_bounds& bounds, duration to_wall, std::uint64_t seed) noexcept;

  /// Records a call that has ended at `now`. Returns the new limit.
  std::uint64_t record(const limit_sample& s, time_point now) noexcept;

  /// The latency of a callee that is not overloaded; 0 until it is known.
  duration baseline() const noexcept { return duration{static_cast<duration::rep>(baseline_)}; }

 private:
  void close(time_point now) noexcept;
  void heed_drops(time_point now) noexcept;
  void cut_to_what_succeeds(time_point now) noexcept;
  bool has_cut_in_vain() const noexcept;
  bool drops_too_many() const noexcept;
  void give_up_early(const limit_sample& s, time_point now) noexcept;
  bool has_raised_in_vain(time_point now) const noexcept;
  void take_raise_back(double to, time_point now) noexcept;
  void learn(double x, time_point now) noexcept;
  void probe_on(double x, time_point now) noexcept;
  void follow(double x, time_point now) noexcept;
  void probe(double back, time_point now) noexcept;
  void schedule_probe(time_point now) noexcept;
  void set(double limit, limit_reason why, time_point now) noexcept;
  bool is_used() const noexcept { return static_cast<double>(window_.peak()) >= limit_ / 2; }
  double any_of(double low, double high) noexcept;

  // All latencies in the following members are in nanoseconds.
  double baseline_ = 0;   // r0, the latency without load
  double smoothed_ = 0;   // R, the smoothed median latency; 0: not known
  double reference_ = 0;  // the greatest limit since the last probe
  double top_ = 0;        // the value to which dropped calls last lowered the limit
  // The number of concurrent calls that succeed while the latency is below 1.25 * baseline_. This value falls slowly.
  double carried_ = 0;
  double usual_drops_ = 0;                     // the share of dropped calls that does not depend on the limit
  time_point hold_until_ = time_point::min();  // the limit stays at or below top_ until this instant

  bool is_probing_ = false;
  double back_ = 0, probe_latency_ = 0, probe_limit_ = 0;
  int probe_step_ = 0;
  time_point next_probe_ = time_point::max();

  // The state of a trial with a lower limit. The limit was cut because of dropped calls, and the trial shows whether
  // the cut reduces the drops.
  double trial_back_ = 0;  // the limit before the cut that is on trial; 0: no trial
  time_point trial_until_{};
  double trial_limit_ = 0, trial_share_ = 0, trial_time_share_ = 0;

  // The state of a trial with a raised limit. The limit is raised if callers give up because they wait too long for a
  // slot.
  double raised_from_ = 0;  // the limit before the raise that is on trial; 0: no trial
  double raised_rate_ = 0;  // the rate of successful calls, per nanosecond, before the limit was raised
  time_point raise_again_at_ = time_point::min();

  int learned_ = 0;  // number of windows that have measured the baseline
  int streak_ = 0;   // number of windows in a row in which calls use up the limit and the latency is near the baseline
  int low_ = 0;      // number of windows in a row with a latency below the baseline

  // The number of calls in this window that were cancelled because of their wait for a slot. Such a call waited longer
  // than it ran, and ran for at most twice the usual latency. Counts only while calls use up the limit.
  std::uint64_t given_up_early_ = 0;
  double low_sum_ = 0;

  duration to_wall_;
  std::uint64_t random_;
};

}  // namespace canigo
