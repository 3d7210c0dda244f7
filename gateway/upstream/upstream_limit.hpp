#pragma once

#include "canigo/algorithms/latency_window.hpp"
#include "canigo/hedge_options.hpp"
#include "canigo/limiter.hpp"
#include "canigo/net.hpp"
#include "canigo/redis/permit.hpp"
#include "canigo/retry_policy.hpp"

#include "gateway/config/config.hpp"
#include "gateway/policy/pause_book.hpp"
#include "gateway/policy/pause_growth.hpp"
#include "gateway/policy/quota_fields.hpp"
#include "gateway/policy/spent_quotas.hpp"
#include "gateway/policy/token_ratios.hpp"
#include "gateway/policy/upstream_breaker.hpp"
#include "gateway/upstream/outside_waits.hpp"
#include "gateway/upstream/redis_limit.hpp"
#include "gateway/upstream/upstream_place.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// The limits of an upstream, its pauses, its breaker, and the statistics of its calls. A reload keeps all of it.
///
/// Threads: any.
class upstream_limit {
 public:
  /// The limit lives on the loop of `executor`. `store`: keeps the limits that instances share; null: no limit is
  /// shared.
  ///
  /// Throws system_error for a value that the library refuses.
  upstream_limit(const net::any_io_executor& executor, const config& c, const upstream& u, redis::client* store);
  upstream_limit(const upstream_limit&) = delete;
  upstream_limit& operator=(const upstream_limit&) = delete;

  /// The limit of this instance, which each call asks first.
  limiter& local() noexcept { return local_; }
  /// The limits of all instances, which a call asks next; null: there are none.
  redis_limit* shared() noexcept { return shared_.get(); }
  /// How the usage of calls compares with their estimates.
  token_ratios& ratios() noexcept { return ratios_; }
  /// The budget that bounds the number of hedges.
  retry_budget& hedges() noexcept { return hedges_; }
  /// The recent times to the first byte.
  latency_window& latencies() noexcept { return latencies_; }

  /// Begins a call with a place of the limits. Nothing: the breaker has opened meanwhile. Then the permits are given
  /// back, and the call has to wait again.
  std::optional<upstream_place> enter(permit local, redis::permit shared);
  /// Gives the permits back, and all tokens that they took.
  void give_back(permit& local, redis::permit& shared) const;
  void give_back(permit& local) const;

  /// Pauses the upstream for all calls, until `until`. A pause that is on is only made longer.
  void pause(time_point until);
  /// A call that began at `started` was refused, and the response names no wait, or a wait of zero. Returns the end of
  /// the pause that is due, of this tenant, or of all if the name is empty. `first`: see pause_growth.
  time_point end_of_growing_pause(std::string_view tenant, time_point started, duration first);
  /// Notes that a call that began at `started` has succeeded, so the next growing pause is a short one.
  void note_success(std::string_view tenant, time_point started);
  /// The upstream tells how much of its quotas is left. The rates of this instance drop what is more than that.
  void lower(const told_limits& told);
  /// A quota of a day is used up. Calls that need it are to be refused until its reset.
  void note_spent(spent_quota q);
  /// The quota that refuses a call of this tenant for this model; nothing: none does.
  std::optional<spent_quota> find_spent(std::string_view tenant, std::string_view model) const;
  std::vector<spent_quota> all_spent() const;
  /// An operator wants no call before `until`, or takes that back. Then quotas of a day count as whole, too.
  void pause_by_operator(time_point until);
  void resume_by_operator();

  struct status {
    circuit_state breaker = circuit_state::closed;
    time_point open_until = time_point::min();  ///< when the breaker ends its pause; min(): the breaker is not open
    std::uint64_t opened = 0;                   ///< how often the breaker has opened
    pause_book pauses;
  };
  status now() const;

  /// Changes the terms for all calls that wait, in two steps. Between them calls move to the shares of the next
  /// configuration. begin_change() applies slower rates, lower concurrency and larger bursts, end_change() applies the
  /// rest. So until end_change() no call is granted sooner, and no call asks for more than a burst. There are as many
  /// rates as before, of the same units.
  void begin_change(const upstream& next);
  void end_change(const upstream& next);

  /// The number of a unit, in the order in which the rates first name it.
  std::size_t number_of(std::string_view unit) const noexcept;
  std::size_t units() const noexcept { return units_.size(); }
  const std::string& unit(std::size_t number) const noexcept { return units_[number]; }

  outside_waits& outside() noexcept { return outside_; }

 private:
  friend class upstream_place;
  bool report(upstream_breaker::pass& p, bool failed) noexcept;
  void leave(const upstream_breaker::pass& p, permit& local) noexcept;
  void apply_terms(const upstream& u, time_point now);
  void apply_cap(time_point now);
  void apply_pauses();

  const std::vector<std::string> units_;
  limiter local_;
  std::unique_ptr<redis_limit> shared_;
  token_ratios ratios_;
  retry_budget hedges_{hedge_budget};
  latency_window latencies_;
  outside_waits outside_;

  std::atomic<bool> has_growths_ = false;
  std::atomic<bool> has_spent_ = false;
  mutable std::mutex mutex_;  // guards the members below; the limit may be changed under it
  std::vector<rate_limit> rates_;
  std::uint64_t concurrency_;
  std::uint64_t most_;  // how many calls of this instance may be under way
  upstream_breaker breaker_;
  pause_book pauses_;
  std::map<std::string, pause_growth, std::less<>> growths_;  // by tenant; those that are as new are left out
  spent_quotas spent_;
  std::uint64_t random_;
  std::uint64_t cap_;  // the present cap of the limit
  std::uint64_t opened_ = 0;
};

}  // namespace canigo::gateway
