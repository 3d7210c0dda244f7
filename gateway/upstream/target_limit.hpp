#pragma once

#include "canigo/limiter.hpp"
#include "canigo/permit.hpp"
#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"
#include "gateway/policy/pause_book.hpp"
#include "gateway/policy/pause_growth.hpp"
#include "gateway/policy/quota_fields.hpp"
#include "gateway/policy/spent_quotas.hpp"
#include "gateway/policy/upstream_breaker.hpp"
#include "gateway/policy/wire_window.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace canigo::gateway {

/// The rates and the concurrency cap of an upstream or of one of its targets.
struct limit_terms {
  std::vector<rate_limit> rates;
  std::uint64_t concurrency = unlimited;
};

/// Combines two settings: the result has the lower concurrency and, for each rate, the slower speed and the larger
/// burst. So no rate of the result is faster than in `a` or in `b`. The result accepts each request that `a` or `b`
/// accepts.
limit_terms both(const limit_terms& a, const limit_terms& b);

/// Changes those rates of `of` that differ between `now` and `next`. `of` is a limiter, an alternative or a sublimit.
/// Both lists must have the same number of rates, with the same units.
template <class Limit>
void change_rates(Limit& of, const std::vector<rate_limit>& now, const std::vector<rate_limit>& next) {
  const std::vector<rate_limit> kept = on_the_wire(next);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (!is_same_rate(now[i], next[i])) of.set_rate(i, kept[i].rate);
    if (now[i].burst != next[i].burst) of.set_burst(i, next[i].burst);
  }
}

/// A limiter, or one alternative of a limiter. This class gives both kinds the same functions.
class limit_part {
 public:
  explicit limit_part(limiter& whole) noexcept : of_{&whole} {}
  explicit limit_part(alternative_handle one) noexcept : of_{one} {}

  void pause_until(time_point t);
  void resume();
  void set_concurrency(std::uint64_t concurrency);
  void lower_tokens(std::size_t index, std::uint64_t most);
  /// Changes the rates that differ between `now` and `next`. Both lists must have the same number of rates, with the
  /// same units.
  void change_rates(const std::vector<rate_limit>& now, const std::vector<rate_limit>& next);

 private:
  template <class Do>
  void with(Do what);

  std::variant<limiter*, alternative_handle> of_;
};

/// The state of one target of an upstream: its pauses, its breaker, and its used-up quotas. An upstream without a list
/// of targets has one target. The state is kept when the configuration is reloaded.
///
/// Threads: any.
class target_limit {
 public:
  struct status {
    circuit_state breaker = circuit_state::closed;
    /// when the pause of an open breaker ends; min(): the breaker is not open
    time_point open_until = time_point::min();
    std::uint64_t opened = 0;  ///< how many times the breaker has opened
    pause_book pauses;
  };

  /// `at`: the limit to which `terms` apply. `ahead`: see the constructor of upstream_breaker.
  target_limit(limit_part at, limit_terms terms, const breaker_options& b, std::uint64_t ahead);
  target_limit(const target_limit&) = delete;
  target_limit& operator=(const target_limit&) = delete;

  /// Begins a call that has a permit. Returns std::nullopt if the breaker has opened since the permit was granted.
  std::optional<upstream_breaker::pass> enter();
  /// See upstream_place::report().
  bool report(upstream_breaker::pass& p, bool failed) noexcept;
  /// See upstream_place::report_broken_off().
  bool report_broken_off(const upstream_breaker::pass& p) noexcept;
  void leave(const upstream_breaker::pass& p, permit& local) noexcept;

  /// For the following functions, see the functions of upstream_limit with the same names. Here they affect this target
  /// only.
  void pause(time_point until);
  time_point end_of_growing_pause(std::string_view tenant, time_point started, duration first);
  void note_success(std::string_view tenant, time_point started);
  void note_whole_response(time_point started);
  void lower(const told_limits& told);
  void note_spent(spent_quota q);
  std::optional<spent_quota> find_spent(std::string_view tenant, std::string_view model) const;
  std::vector<spent_quota> all_spent() const;
  void pause_by_operator(time_point until);
  void resume_by_operator();
  /// Pauses the target because its server rejects the key that the gateway sends. The first pause lasts 10 s,
  /// and each further pause lasts longer, up to 5 min. The next pause lasts 10 s again after a call has succeeded,
  /// after the configuration was reloaded, and after resume_by_operator().
  /// `started`: when the rejected call began. If the key may have been replaced after `started`, returns false without
  /// a pause.
  bool refuse_key(time_point started);
  /// Notes that a call that began at `started` has failed. If `may_rest`, the second failure in a row and each later
  /// one pause the target: for 1 s, 2 s, 4 s, up to 60 s. Returns true if it paused the target. Unlike the breaker,
  /// these pauses work for a target with few calls, too.
  bool note_failure(time_point started, bool may_rest);
  /// Whether the target is paused because its key was rejected or because its calls failed.
  bool is_out() const;
  /// Returns when this target may take a call: the end of its pause, or `now` if the target is not paused. If the
  /// breaker lets no call through at `now`, returns one second after `now`.
  time_point takes_call_at(time_point now) const;
  status now() const;

  /// Changes the rates and the cap. The change also applies to calls that already wait.
  void change(limit_terms next);
  /// Applies the settings and the breaker options of a reloaded configuration. Forgets all failures, because the key
  /// may be new.
  void end_change(limit_terms next, const breaker_options& b);

 private:
  void note_report(bool opens, time_point now);
  void keep_growths();
  void apply(limit_terms next, time_point now);
  void apply_cap(time_point now);
  void apply_pauses();
  void forget_failures() noexcept;

  std::atomic<bool> has_growths_ = false;
  std::atomic<bool> has_spent_ = false;
  mutable std::mutex mutex_;  // guards the members below; is also held while the limit is changed
  limit_part limit_;
  limit_terms terms_;
  upstream_breaker breaker_;
  pause_book pauses_;
  // The growing pauses by tenant. A tenant is removed after a call of this tenant has succeeded.
  std::map<std::string, pause_growth, std::less<>> growths_;
  pause_growth key_;
  time_point key_since_ = time_point::min();  // when forget_failures() was last called: the key may be new since then
  pause_growth failing_;
  int failures_ = 0;  // the number of failures in a row
  spent_quotas spent_;
  std::uint64_t random_;
  std::uint64_t cap_;  // the concurrency that the limit has now
  std::uint64_t opened_ = 0;
};

}  // namespace canigo::gateway
