#pragma once

#include "canigo/algorithms/latency_window.hpp"
#include "canigo/hedge_options.hpp"
#include "canigo/limiter.hpp"
#include "canigo/net.hpp"
#include "canigo/redis/permit.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/scheduler.hpp"

#include "gateway/config/config.hpp"
#include "gateway/policy/quota_fields.hpp"
#include "gateway/policy/spent_quotas.hpp"
#include "gateway/policy/token_ratios.hpp"
#include "gateway/upstream/outside_waits.hpp"
#include "gateway/upstream/redis_limit.hpp"
#include "gateway/upstream/target_limit.hpp"
#include "gateway/upstream/upstream_place.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// The limits of an upstream and of its targets, and the statistics of its calls. A reload keeps all of it.
///
/// `target` is the index of one of the upstream's targets: 0 for an upstream without a list of targets.
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

  /// The limit of this instance, which each call asks first. Each target is one of its alternatives, if there are
  /// several.
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

  std::size_t targets() const noexcept { return targets_.size(); }
  const target_limit& at(std::size_t target) const noexcept { return *targets_[target]; }

  /// Pauses a target for all calls, until `until`. A pause that is on is only made longer.
  void pause(std::size_t target, time_point until);
  /// A call that began at `started` was refused, and the response names no wait, or a wait of zero. Returns the end of
  /// the pause that is due, of this tenant, or of all if the name is empty. `first`: see pause_growth.
  time_point end_of_growing_pause(std::size_t target, std::string_view tenant, time_point started, duration first) {
    return targets_[target]->end_of_growing_pause(tenant, started, first);
  }
  /// Notes that a call that began at `started` has failed at the target. After several in a row it is paused, unless
  /// all others are out: see target_limit::note_failure(). True: it is paused now.
  bool note_failure(std::size_t target, time_point started);
  /// Notes that a call that began at `started` has succeeded, so the next growing pause is a short one.
  void note_success(std::size_t target, std::string_view tenant, time_point started) {
    targets_[target]->note_success(tenant, started);
  }
  /// A target does not take its key, as its answer to a call that began at `started` says. It is paused, and returns
  /// true, unless all others are out, too: then clients get the answers of the last one.
  bool refuse_key(std::size_t target, time_point started);
  /// A target tells how much of its quotas is left. The rates of this instance drop what is more than that.
  void lower(std::size_t target, const told_limits& told);
  /// A quota of a day is used up. Calls that need it are to be refused until its reset.
  void note_spent(std::size_t target, spent_quota q) { targets_[target]->note_spent(std::move(q)); }
  /// The quota of a target that refuses a call of this tenant for this model; nothing: none does.
  std::optional<spent_quota> find_spent(std::size_t target, std::string_view tenant, std::string_view model) const {
    return targets_[target]->find_spent(tenant, model);
  }
  std::vector<spent_quota> all_spent() const;
  /// An operator wants no call before `until`, or takes that back. Then quotas of a day count as whole, too, and
  /// refused keys as taken. `target`: none means all.
  void pause_by_operator(time_point until, std::optional<std::size_t> target = std::nullopt);
  void resume_by_operator(std::optional<std::size_t> target = std::nullopt);

  using status = target_limit::status;
  /// The state of the target that is out for the least time: the upstream is out if all its targets are. `opened` is
  /// the sum over all.
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
  /// The limit of the messages that clients send by websockets; null: there is none.
  std::shared_ptr<scheduler> messages() const;

 private:
  friend class upstream_place;
  void take_terms(const upstream& u);
  void take_messages(const upstream& u);
  bool is_last(std::size_t target) const;

  const std::vector<std::string> units_;
  const bool has_list_;  // of targets
  limiter local_;
  std::unique_ptr<redis_limit> shared_;
  token_ratios ratios_;
  retry_budget hedges_{hedge_budget};
  latency_window latencies_;
  outside_waits outside_;
  std::vector<std::unique_ptr<target_limit>> targets_;  // never empty

  mutable std::mutex mutex_;  // guards the terms; they may be changed under it
  limit_terms terms_;
  std::vector<limit_terms> of_targets_;  // empty without a list
  const net::any_io_executor executor_;
  const int priorities_;
  const duration ageing_;
  std::shared_ptr<scheduler> messages_;
};

}  // namespace canigo::gateway
