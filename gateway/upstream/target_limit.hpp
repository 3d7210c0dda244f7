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

/// The rates and the cap of an upstream, or of one of its targets.
struct limit_terms {
  std::vector<rate_limit> rates;
  std::uint64_t concurrency = unlimited;
};

/// The terms of both at once: the lower concurrency, the slower of each two rates, the larger of each two bursts. So no
/// request is granted sooner than by either, and none is too large that was not.
limit_terms both(const limit_terms& a, const limit_terms& b);

/// A limiter, or one alternative of it.
class limit_part {
 public:
  explicit limit_part(limiter& whole) noexcept : of_{&whole} {}
  explicit limit_part(alternative_handle one) noexcept : of_{one} {}

  void pause_until(time_point t);
  void resume();
  void set_concurrency(std::uint64_t concurrency);
  void lower_tokens(std::size_t index, std::uint64_t most);
  /// Changes the rates that differ. Both have the same number, with the same units.
  void change_rates(const std::vector<rate_limit>& now, const std::vector<rate_limit>& next);

 private:
  template <class Do>
  void with(Do what);

  std::variant<limiter*, alternative_handle> of_;
};

/// One target of an upstream: its pauses, its breaker, and the quotas of which it has told that nothing is left. An
/// upstream without a list of targets has one. A reload keeps all of it.
///
/// Threads: any.
class target_limit {
 public:
  struct status {
    circuit_state breaker = circuit_state::closed;
    time_point open_until = time_point::min();  ///< when the breaker ends its pause; min(): the breaker is not open
    std::uint64_t opened = 0;                   ///< how often the breaker has opened
    pause_book pauses;
  };

  /// `at`: the limit that has these terms. `ahead`: see upstream_breaker.
  target_limit(limit_part at, limit_terms terms, const breaker_options& b, std::uint64_t ahead);
  target_limit(const target_limit&) = delete;
  target_limit& operator=(const target_limit&) = delete;

  /// Begins a call that has a permit. Nothing: the breaker has opened meanwhile.
  std::optional<upstream_breaker::pass> enter();
  /// See upstream_place::report().
  bool report(upstream_breaker::pass& p, bool failed) noexcept;
  void leave(const upstream_breaker::pass& p, permit& local) noexcept;

  /// See the members of upstream_limit with these names.
  void pause(time_point until);
  time_point end_of_growing_pause(std::string_view tenant, time_point started, duration first);
  void note_success(std::string_view tenant, time_point started);
  void lower(const told_limits& told);
  void note_spent(spent_quota q);
  std::optional<spent_quota> find_spent(std::string_view tenant, std::string_view model) const;
  std::vector<spent_quota> all_spent() const;
  void pause_by_operator(time_point until);
  void resume_by_operator();
  /// The target does not take its key. Pauses it: 10 s first, and then longer, up to 5 min, until a call succeeds or
  /// the configuration is loaded again. The call began at `started`; false: it had a key of before.
  bool refuse_key(time_point started);
  /// A call that began at `started` has failed. From the second one in a row on, each pauses the target if it
  /// `may_rest`: 1 s, 2 s, 4 s, to 60 s. True: it is paused. So a target that fails gets few calls, however few there
  /// are.
  bool note_failure(time_point started, bool may_rest);
  /// Whether its key is refused, or it rests after failures.
  bool is_out() const;
  status now() const;

  /// Takes other terms, for all calls that wait.
  void change(limit_terms next);
  /// Takes the terms and the breaker of a configuration that was loaded. The key counts as new.
  void end_change(limit_terms next, const breaker_options& b);

 private:
  void apply(limit_terms next, time_point now);
  void apply_cap(time_point now);
  void apply_pauses();
  void forget_failures() noexcept;

  std::atomic<bool> has_growths_ = false;
  std::atomic<bool> has_spent_ = false;
  mutable std::mutex mutex_;  // guards the members below; the limit may be changed under it
  limit_part limit_;
  limit_terms terms_;
  upstream_breaker breaker_;
  pause_book pauses_;
  std::map<std::string, pause_growth, std::less<>> growths_;  // by tenant; those that are as new are left out
  pause_growth key_;
  time_point key_since_ = time_point::min();  // the key may be another one since then
  pause_growth failing_;
  int failures_ = 0;  // in a row
  spent_quotas spent_;
  std::uint64_t random_;
  std::uint64_t cap_;  // the present cap of the limit
  std::uint64_t opened_ = 0;
};

}  // namespace canigo::gateway
