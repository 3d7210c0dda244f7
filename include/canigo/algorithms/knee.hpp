#pragma once

#include "canigo/algorithms/limit_sample.hpp"
#include "canigo/detail/base/windowed_limit.hpp"
#include "canigo/time.hpp"

#include <cstdint>

namespace canigo {

/// An adaptive limit that finds the knee: the most calls at once for which the latency stays near that of an idle
/// callee. It needs no numbers.
struct knee {};

/// The decisions of an adaptive limit by the knee of the latency. A value without a clock and without a lock.
///
/// It looks at windows of at least 50 calls and 100 ms. The median latency of a window, smoothed, is compared with a
/// baseline r0. A limit L moves towards L·r0/R + H, where R is the latency and H = 0.75·√L + L/10 the room for a queue.
///
/// If one call in twenty more than usual is dropped, L becomes the number of calls that succeeded at a time, but at
/// least half of L. If at the lower limit as large a share is dropped, and the latency is as good as ever, the drops
/// don't come from the load. Then L returns to its former value, and that share counts as usual. While hardly a call
/// succeeds, L stays above half of the greatest number that succeeded at a time before.
///
/// The baseline is measured by probes: twice a minute the limit falls to 0.6·L for one window, and further as long as
/// that shortens the latency. Probes are aligned by the wall clock, so many clients of one callee probe together. If
/// they did not, each would measure the queue of the others.
///
/// A cancelled call counts with its age if that is more than twice the latency; otherwise it does not count. If most
/// calls at the limit are cancelled after they had waited longer than they ran, L grows by half. Their callers have
/// spent their time on the wait for a place. If hardly more calls succeed then, L goes back, and no growth of that kind
/// follows for 30 s. So callers may race several calls, and cancel those that lose.
///
/// Source: found by simulation; docs/policies.md has the results, and tests/adaptive repeats them. The gradient is that
/// of Netflix' concurrency-limits, with room for a queue that grows by the square root. The probes are those of BBR and
/// Envoy.
/// Threads: not safe by itself; its owner holds a lock. Takes constant time. Allocates: never.
class knee_control : public detail::windowed_limit {
 public:
  /// `to_wall` is what to add to a time to get that of the wall clock, since any full minute.
  knee_control(const limit_bounds& bounds, duration to_wall, std::uint64_t seed) noexcept;

  /// Learns of a call that has ended at `now`. Returns the limit from now on.
  std::uint64_t record(const limit_sample& s, time_point now) noexcept;

  /// The latency of a callee that is not overloaded; 0 as long as it is not known.
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

  // Latencies are in nanoseconds.
  double baseline_ = 0;                        // r0
  double smoothed_ = 0;                        // R; 0: not known
  double reference_ = 0;                       // the greatest limit since the last probe
  double top_ = 0;                             // the limit after the last drops
  double carried_ = 0;                         // calls at a time that succeeded while the latency was good
  double usual_drops_ = 0;                     // the share of drops that does not depend on the limit
  time_point hold_until_ = time_point::min();  // until then the limit does not grow beyond top_

  bool is_probing_ = false;
  double back_ = 0, probe_latency_ = 0, probe_limit_ = 0;
  int probe_step_ = 0;
  time_point next_probe_ = time_point::max();

  // A cut because of drops is a trial.
  double trial_back_ = 0;  // the limit before the cut; 0: no trial
  time_point trial_until_{};
  double trial_limit_ = 0, trial_share_ = 0, trial_time_share_ = 0;

  // A raise for callers that starve is a trial, too.
  double raised_from_ = 0;  // the limit before the raise; 0: no trial
  double raised_rate_ = 0;  // calls that succeeded a nanosecond
  time_point raise_again_at_ = time_point::min();

  int learned_ = 0;                   // windows
  int streak_ = 0;                    // windows in a row in which the limit binds and the latency is near the baseline
  int low_ = 0;                       // windows in a row below the baseline
  std::uint64_t given_up_early_ = 0;  // calls given up early in this window, while the limit bound
  double low_sum_ = 0;

  duration to_wall_;
  std::uint64_t random_;
};

}  // namespace canigo
