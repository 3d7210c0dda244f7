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

/// The limits of an upstream and of its targets, and the statistics of its calls. All of it survives a reload.
///
/// In each function, `target` is the index of a target of the upstream: 0 for an upstream without a list of targets.
/// Threads: any.
class upstream_limit {
 public:
  /// The limit runs on the loop of `executor`. `store`: keeps the limits that instances share; null: no limit is
  /// shared.
  ///
  /// Throws system_error for a setting that the library rejects.
  upstream_limit(const net::any_io_executor& executor, const config& c, const upstream& u, redis::client* store);
  upstream_limit(const upstream_limit&) = delete;
  upstream_limit& operator=(const upstream_limit&) = delete;

  /// The limit of this instance, for which each call waits first. If there are several targets, each is one of its
  /// alternatives.
  limiter& local() noexcept { return local_; }
  /// The limits of all instances, for which a call waits next; null if the upstream has none.
  redis_limit* shared() noexcept { return shared_.get(); }
  /// The limits of models, which are sublimits of local().
  model_limits& models() noexcept { return models_; }
  /// The ratios between the usage and the estimates of calls.
  token_ratios& ratios() noexcept { return ratios_; }
  /// The budget that bounds how many calls get a second attempt in parallel.
  retry_budget& hedges() noexcept { return hedges_; }
  /// The recent latencies, each from the request to the first byte of its response.
  latency_window& latencies() noexcept { return latencies_; }

  /// Returns the request for the limit of all instances, for a call that has a place of this instance's limit. The
  /// request names the targets that take calls now. `again_at`: when another target may take calls. The call should
  /// then end this request and ask again.
  request ask_all(const request& ask, const permit& local, time_point& again_at) const;
  /// Begins a call that has permits of the limits. Returns nothing if the breaker has opened since the grant. Then the
  /// permits are given back, and the call has to wait again.
  std::optional<upstream_place> enter(permit local, redis::permit shared);
  /// Gives the permits back, and refunds all tokens that they took.
  void give_back(permit& local, redis::permit& shared) const;
  void give_back(permit& local) const;

  std::size_t targets() const noexcept { return targets_.size(); }
  const target_limit& at(std::size_t target) const noexcept { return *targets_[target]; }

  /// Pauses a target for all calls until `until`. It never shortens a running pause.
  void pause(std::size_t target, time_point until);
  /// Returns the end of the next pause after the refusal of a call that began at `started`. Call it if the response
  /// names no wait, or a wait of zero. The pauses grow per tenant, or for all tenants together if the name is empty.
  /// `first`: see pause_growth.
  time_point end_of_growing_pause(std::size_t target, std::string_view tenant, time_point started, duration first) {
    return targets_[target]->end_of_growing_pause(tenant, started, first);
  }
  /// Notes that a call that began at `started` has failed at the target. After several failures in a row the target is
  /// paused, unless one of its models would have no other usable target: see target_limit::note_failure(). Returns true
  /// if it paused the target.
  bool note_failure(std::size_t target, time_point started);
  /// Notes that a call that began at `started` has succeeded, so the next growing pause starts short again.
  void note_success(std::size_t target, std::string_view tenant, time_point started) {
    targets_[target]->note_success(tenant, started);
  }
  /// Notes that the response to a call that began at `started` is sound and whole, which ends a row of failures.
  void note_whole_response(std::size_t target, time_point started) { targets_[target]->note_whole_response(started); }
  /// Pauses a target that rejected its key in the answer to a call that began at `started`. Returns true if it paused
  /// the target. If one of its models would have no other usable target, this one stays in use, so that clients get its
  /// answers.
  bool refuse_key(std::size_t target, time_point started);
  /// Lowers the tokens of this instance's rates to the rest of the quotas that a target's response reports.
  void lower(std::size_t target, const told_limits& told);
  /// Notes that a quota is used up. Calls that need it are refused until its reset.
  void note_spent(std::size_t target, spent_quota q) { targets_[target]->note_spent(std::move(q)); }
  /// Returns the used-up quota of a target that forbids a call of this tenant for this model; nothing if there is none.
  std::optional<spent_quota> find_spent(std::size_t target, std::string_view tenant, std::string_view model) const {
    return targets_[target]->find_spent(tenant, model);
  }
  std::vector<spent_quota> all_spent() const;
  /// Pauses calls until `until` for an operator, or ends such a pause. Ending it also forgets used-up quotas and
  /// rejected keys. `target`: the target to pause; none: all.
  void pause_by_operator(time_point until, std::optional<std::size_t> target = std::nullopt);
  void resume_by_operator(std::optional<std::size_t> target = std::nullopt);

  using status = target_limit::status;
  /// Returns the state of a target. It includes the pauses of this instance and those that all instances share.
  status of_target(std::size_t target) const;
  /// Returns the state of the target that is available first, because the upstream is available with it. `opened` is
  /// the sum over all targets.
  status now() const;

  /// Changes the settings for all waiting calls, in two steps. Between the steps, calls move to the flows of the next
  /// configuration. begin_change() applies slower rates, lower concurrency and larger bursts; end_change() applies the
  /// rest. So before end_change() no call is granted earlier, and no call asks for more than a burst. The number and
  /// the units of the rates must stay the same.
  void begin_change(const upstream& next);
  void end_change(const upstream& next);

  /// Returns the index of a unit, counted in the order in which the rates first name each unit.
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
  const bool has_list_;  // whether the configuration lists targets
  limiter local_;
  model_limits models_;
  std::unique_ptr<redis_limit> shared_;
  token_ratios ratios_;
  retry_budget hedges_{hedge_budget};
  latency_window latencies_;
  outside_waits outside_;
  std::vector<std::unique_ptr<target_limit>> targets_;  // one for each target; there is at least one

  mutable std::mutex mutex_;                          // guards the settings; the limits are changed while it is locked
  std::vector<std::vector<target_set>> substitutes_;  // of each listed target, see gateway::substitutes()
  limit_terms terms_;
  std::vector<limit_terms> of_targets_;  // the settings of each target; empty without a list of targets
  std::vector<model_limit> of_models_;
  const net::any_io_executor executor_;
  const int priorities_;
  const duration ageing_;
  std::shared_ptr<scheduler> messages_;
};

}  // namespace canigo::gateway
