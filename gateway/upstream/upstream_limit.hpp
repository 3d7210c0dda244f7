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
#include "gateway/upstream/model_limits.hpp"
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

/// The limits of an upstream and of its targets, and the statistics of its calls. All of this state is kept when the
/// configuration is reloaded.
///
/// In each function, `target` is the index of a target of the upstream: 0 for an upstream without a list of targets.
/// Threads: any.
class upstream_limit {
 public:
  /// The limit runs on the loop of `executor`. `store`: the Redis client for limits that several instances share; null:
  /// no limit is shared.
  ///
  /// Throws system_error for a setting that the library rejects.
  upstream_limit(const net::any_io_executor& executor, const config& c, const upstream& u, redis::client* store);
  upstream_limit(const upstream_limit&) = delete;
  upstream_limit& operator=(const upstream_limit&) = delete;

  /// The limit of this instance, for which each call waits first. If the upstream has several targets, each target is
  /// one alternative of this limiter.
  limiter& local() noexcept { return local_; }
  /// The limits that all instances share, for which a call waits after local(); null if the upstream is not shared.
  redis_limit* shared() noexcept { return shared_.get(); }
  /// The limits of models, which are sublimits of local().
  model_limits& models() noexcept { return models_; }
  /// The learned ratios of used tokens to estimated tokens, by model.
  token_ratios& ratios() noexcept { return ratios_; }
  /// The budget that limits how many calls get a second, parallel attempt.
  retry_budget& hedges() noexcept { return hedges_; }
  /// The recent latencies: the time from a request to the first byte of its response.
  latency_window& latencies() noexcept { return latencies_; }

  /// Returns the request for the limits that all instances share. The call already holds the permit `local` of this
  /// instance's limit. The request names the targets that may take calls now. Lowers `again_at` to the time at which a
  /// further target may take calls. At that time the call should end this request and ask again.
  request ask_all(const request& ask, const permit& local, time_point& again_at) const;
  /// Begins a call that has the permits of all limits. If the target may no longer take the call, gives the permits
  /// back and returns nothing; the call must then wait again. For example, the breaker of the target may have opened
  /// after the grant. If Redis has chosen a target whose cap is used up, adds this target to `full`.
  std::optional<upstream_place> enter(permit local, redis::permit shared, target_set& full);
  /// Gives the permits back, with all tokens that they took.
  void give_back(permit& local, redis::permit& shared) const;
  void give_back(permit& local) const;

  std::size_t targets() const noexcept { return targets_.size(); }
  const target_limit& at(std::size_t target) const noexcept { return *targets_[target]; }

  /// Pauses a target for all calls until `until`. Does not shorten a pause that already lasts longer.
  void pause(std::size_t target, time_point until);
  /// Call it if a call that began at `started` was refused, and the response names no wait or a wait of zero. Returns
  /// the end of the pause that follows. Repeated refusals make the pauses longer, separately for each tenant, or for
  /// all tenants together if `tenant` is empty. `first`: the length of the first pause; see pause_growth.
  time_point end_of_growing_pause(std::size_t target, std::string_view tenant, time_point started, duration first) {
    return targets_[target]->end_of_growing_pause(tenant, started, first);
  }
  /// Notes that a call that began at `started` has failed at the target. After several failures in a row the target is
  /// paused, unless one of its models would then have no usable target: see target_limit::note_failure(). Returns true
  /// if it paused the target.
  bool note_failure(std::size_t target, time_point started);
  /// Notes that a call that began at `started` has succeeded. If the call began after the end of the last pause, the
  /// pauses stop growing: the next pause is as short as a first pause.
  void note_success(std::size_t target, std::string_view tenant, time_point started) {
    targets_[target]->note_success(tenant, started);
  }
  /// Notes that the response to a call that began at `started` came to its end without a failure. Such a response ends
  /// a row of failures.
  void note_whole_response(std::size_t target, time_point started) { targets_[target]->note_whole_response(started); }
  /// Call it if the response to a call that began at `started` rejects the target's API key. Pauses the target, unless
  /// one of its models would then have no usable target. Without a pause, clients get the responses of this target.
  /// Returns true if the target was paused.
  bool refuse_key(std::size_t target, time_point started);
  /// If a target's response reports quotas, lowers the tokens of this instance's rates to what is left of the quotas.
  void lower(std::size_t target, const told_limits& told);
  /// Notes that a quota is used up. Calls that need the quota are refused until the quota is full again.
  void note_spent(std::size_t target, spent_quota q) { targets_[target]->note_spent(std::move(q)); }
  /// Returns the used-up quota of a target that forbids a call of this tenant for this model; nothing if there is none.
  std::optional<spent_quota> find_spent(std::size_t target, std::string_view tenant, std::string_view model) const {
    return targets_[target]->find_spent(tenant, model);
  }
  std::vector<spent_quota> spent_at(std::size_t target) const { return targets_[target]->all_spent(); }
  /// pause_by_operator() pauses calls until `until`, and resume_by_operator() ends such a pause. resume_by_operator()
  /// also forgets failures, used-up quotas and rejected keys. `target`: the target to pause; none: all targets.
  void pause_by_operator(time_point until, std::optional<std::size_t> target = std::nullopt);
  void resume_by_operator(std::optional<std::size_t> target = std::nullopt);

  using status = target_limit::status;
  /// Returns the state of a target, including the pauses of this instance and those that all instances share.
  status of_target(std::size_t target) const;
  /// Returns the state of the upstream. The upstream takes calls as soon as one of its targets takes calls. So this is
  /// the state of the target that can take calls earliest. Only the field `opened` is the sum over all targets.
  status now() const;

  /// begin_change() and end_change() change the settings in two steps, also for calls that already wait. Between the
  /// steps, calls move to the flows of the next configuration. begin_change() applies slower rates, lower concurrency
  /// and larger bursts; end_change() applies all other changes. So between the steps no call is granted too early, and
  /// no call asks for more than a burst. The number and the units of the rates must stay the same.
  void begin_change(const upstream& next);
  void end_change(const upstream& next);

  /// Returns the index of a unit among all units of the rates, in the order in which the rates first name them.
  std::size_t number_of(std::string_view unit) const noexcept;
  std::size_t units() const noexcept { return units_.size(); }
  const std::string& unit(std::size_t number) const noexcept { return units_[number]; }

  outside_waits& outside() noexcept { return outside_; }
  /// The rate limit for websocket messages of clients; null if there is none.
  std::shared_ptr<scheduler> messages() const;

 private:
  friend class upstream_place;
  void take_terms(const upstream& u);
  void take_messages(const upstream& u);
  bool is_last(std::size_t target) const;
  bool is_over_cap(std::size_t target) const;

  const std::vector<std::string> units_;
  const bool has_list_;  // whether the configuration lists targets for the upstream
  limiter local_;
  model_limits models_;
  std::unique_ptr<redis_limit> shared_;
  token_ratios ratios_;
  retry_budget hedges_{hedge_budget};
  latency_window latencies_;
  outside_waits outside_;
  std::vector<std::unique_ptr<target_limit>> targets_;  // one element for each target; there is at least one

  mutable std::mutex mutex_;                          // guards the settings; is also held while the limits are changed
  std::vector<std::vector<target_set>> substitutes_;  // one set per target and model: the targets that serve the model
  limit_terms terms_;
  std::vector<limit_terms> of_targets_;  // the settings of each target; empty if the upstream has no list of targets
  std::vector<model_limit> of_models_;
  const net::any_io_executor executor_;
  const int priorities_;
  const duration ageing_;
  std::shared_ptr<scheduler> messages_;
};

}  // namespace canigo::gateway
