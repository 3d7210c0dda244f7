#pragma once

#include "canigo/flow.hpp"
#include "canigo/retry_policy.hpp"

#include "gateway/config/config.hpp"
#include "gateway/policy/quota_fields.hpp"
#include "gateway/policy/return_times.hpp"
#include "gateway/policy/token_amounts.hpp"
#include "gateway/upstream/link_pool.hpp"
#include "gateway/upstream/upstream_limit.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::gateway {

/// The max number of tenants that have a flow of their own at one host. A flow takes about 300 bytes, and there may be
/// thousands of tenants at each of thousands of hosts.
inline constexpr std::size_t most_flows_of_a_host = 256;

/// Whether `u` describes a host of forward mode.
inline bool is_host(const upstream& u) noexcept { return u.prefix.empty(); }

/// Calls reach an upstream, or a host of forward mode, through its queue. The queue has one limit for all loops, with a
/// flow for each tenant. It has one pool of connections for each loop. There may be many hosts, so the flows of a host
/// are created on first use.
///
/// A queue belongs to one configuration. After a reload, the queue of the new configuration takes over the limit and
/// the other lasting state of the old queue.
class upstream_queue {
 public:
  /// The queue's limit runs on the first loop. Throws system_error for a setting that the library rejects.
  ///
  /// `store`: the Redis client for limits that several instances share; null: no limit is shared.
  ///
  /// `before`: the queue of this upstream in the configuration that is being replaced; null: there is none. Connections
  /// of `before` are taken over if they lead to the same address.
  upstream_queue(const config& c, upstream u, const std::vector<net::any_io_executor>& loops, redis::client* store,
                 const upstream_queue* before = nullptr);
  upstream_queue(const upstream_queue&) = delete;
  upstream_queue& operator=(const upstream_queue&) = delete;

  /// Takes over the limit of the queue `before`, and gives the limit the settings of this queue. Calls that already
  /// wait are subject to the new settings, too. Precondition: both queues have the same number of rates, with the same
  /// units.
  ///
  /// Until end_take_over(), no call is granted earlier than under the settings of `before`, and none is refused as too
  /// large. Call end_take_over() after the waiting calls have moved from the flows of `before` to those of this queue.
  void take_over(const upstream_queue& before);
  void end_take_over() { limit_->end_change(upstream_); }

  const upstream& settings() const noexcept { return upstream_; }
  /// Returns the upstream's settings for one target.
  const upstream& settings(std::size_t target) const noexcept {
    return at_targets_.empty() ? upstream_ : at_targets_[target];
  }
  /// The limits, pauses and breaker of the upstream. They are kept when the configuration is reloaded.
  upstream_limit& limits() noexcept { return *limit_; }
  limiter& limit() noexcept { return limit_->local(); }
  /// Returns the connections of one loop to one target.
  link_pool& pool(std::size_t loop, std::size_t target) noexcept { return *(*pools_[target])[loop]; }
  std::size_t targets() const noexcept { return pools_.size(); }
  retry_budget& budget() noexcept { return *budget_; }

  /// Returns how long a call's first attempt may wait for a response before a second attempt starts beside it. Returns
  /// std::nullopt if there is no second attempt: none is configured, or too few response times are known. If second
  /// attempts are configured, each call of this function adds a fraction of an attempt to their budget.
  std::optional<duration> hedge_after();

  /// Returns the targets that may serve a tenant's call for this model: those that serve the model and whose quota for
  /// it is not used up. If the result is 0, either no target serves the model, or find_spent() returns the quota that
  /// is used up.
  target_set candidates(std::size_t tenant, std::string_view model) const;

  /// Builds the request that a tenant's call makes to the limit. `model`: the model that the call asks for. `amounts`:
  /// one amount for each unit that the upstream's rates count.
  request ask(std::size_t tenant, int priority, time_point deadline, std::uint64_t tag,
              std::span<const token_amount> amounts, std::string_view model) const;
  /// Returns the name of the limit for which a request waits.
  std::string name_of_limit(const wait_reason& why) const;
  /// Lowers each amount of `r` to the largest that the tenant may ask for at the targets of `r`. Returns true if an
  /// amount was lowered.
  bool lower_to_most(request& r, std::size_t tenant) const;
  /// Returns the time after which the client of a refused call should send the call again. `wait`: the time until the
  /// call could be granted. Clients get different times, so that they do not all send their calls again at the same
  /// time. If the upstream has no rates, or the tenant has limits of its own, the result is always `wait`.
  duration return_after(const request& refused, std::size_t tenant, duration wait);
  /// Returns a list of the first waiters of the queue. The list is at most a second old. It is cached, because a new
  /// list needs a sort of all waiters under the lock of the limit.
  std::shared_ptr<const std::vector<waiting_request>> recent_line();
  /// Returns the flow in which a tenant's requests to the limit wait.
  std::shared_ptr<const flow> share(std::size_t tenant) const { return share_of(tenant); }
  /// Pauses a target until `until`, because its response asks for it. If tenants bring their own credentials, pauses
  /// only this tenant. Does not shorten a pause that already lasts longer.
  void pause(std::size_t target, std::size_t tenant, time_point until);

  /// Returns the end of the pause after a target has refused a call without naming a wait, or with a wait of zero. Each
  /// further refusal makes the pause longer. If tenants bring their own credentials, the pause is only for this tenant;
  /// otherwise it is for all tenants. `started`: when the refused call began. `first`: see pause_growth.
  time_point end_of_growing_pause(std::size_t target, std::size_t tenant, time_point started, duration first) {
    return limit_->end_of_growing_pause(target, whose_pause(tenant), started, first);
  }
  /// Records that a call that began at `started` has succeeded. So after the next refusal, end_of_growing_pause()
  /// begins again with a short pause.
  void note_success(std::size_t target, std::size_t tenant, time_point started) {
    limit_->note_success(target, whose_pause(tenant), started);
  }
  /// See upstream_limit::note_whole_response().
  void note_whole_response(std::size_t target, time_point started) { limit_->note_whole_response(target, started); }
  /// See upstream_limit::note_failure().
  bool note_failure(std::size_t target, time_point started) { return limit_->note_failure(target, started); }
  /// Calls upstream_limit::refuse_key() and returns its result. If tenants bring their own credentials, does nothing
  /// and returns false, because the rejected key is the tenant's.
  bool refuse_key(std::size_t target, time_point started) {
    return !upstream_.credential.is_passed() && limit_->refuse_key(target, started);
  }
  /// Records that a target's response to the tenant's call reported a used-up quota. The quota is for the model
  /// `told.model`; if `told.model` is empty, for all models. If the response names no reset time, the quota counts as
  /// used up until the upstream's next daily reset. If tenants bring their own credentials, the quota belongs to this
  /// tenant.
  void note_spent(std::size_t target, std::size_t tenant, spent_quota told);
  /// Returns the used-up quota that forbids a call of the tenant for this model at the targets `among`. Returns
  /// std::nullopt if one of these targets serves the model and can take the call. If several quotas forbid the call,
  /// returns the quota that resets first.
  std::optional<spent_quota> find_spent(std::size_t tenant, std::string_view model, target_set among) const;
  /// Returns the end of the target's last pause. If tenants bring their own credentials, returns the end of this
  /// tenant's last pause. A time in the past: there is no pause.
  time_point paused_until(std::size_t target, std::size_t tenant) const;

  /// Lowers the available tokens of the limits to the remaining quotas that a target's response reports. Does nothing
  /// if tenants bring their own credentials, because each tenant then has quotas of its own.
  void learn(std::size_t target, const told_limits& told);

  /// Whether this queue has the same state as a new queue: no call waits or runs, all rates are full, there is no
  /// pause, and the breaker is closed. Call it only while no call uses the queue.
  bool is_as_new(time_point now) const;

 private:
  using pools = std::vector<std::unique_ptr<link_pool>>;  // the pools of one target: one for each loop

  void take_pools(const upstream_queue* before, const std::vector<net::any_io_executor>& loops);
  bool takes(std::size_t target, std::size_t tenant, std::string_view model) const {
    return !limit_->find_spent(target, whose_pause(tenant), model);
  }

  /// Returns the name under which pauses and used-up quotas are stored: the tenant's name if tenants bring their own
  /// credentials; otherwise the empty name, for all tenants together.
  std::string_view whose_pause(std::size_t tenant) const noexcept {
    return upstream_.credential.is_passed() ? std::string_view{tenants_[tenant].name} : std::string_view{};
  }
  /// Returns the tenant's flow, and creates it on first use.
  const std::shared_ptr<flow>& share_of(std::size_t tenant) const;
  std::shared_ptr<flow> make_share(std::size_t tenant) const;
  std::shared_ptr<flow> continue_share(std::size_t tenant, const upstream_queue& before, std::size_t old) const;

  const upstream upstream_;
  // the settings for each target; empty if the upstream has no list of targets
  const std::vector<upstream> at_targets_;
  const std::vector<tenant>& tenants_;
  std::shared_ptr<upstream_limit> limit_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, std::shared_ptr<flow>> shares_;  // the flows of tenants, by the tenant's index
  // After most_flows_of_a_host tenants of a host have a flow of their own, all further tenants share this flow.
  mutable std::shared_ptr<flow> others_;
  // For each priority and tenant: the times at which the clients of refused calls were asked to come back.
  std::map<std::pair<int, std::size_t>, return_times> returns_;
  std::mutex line_mutex_;
  std::shared_ptr<const std::vector<waiting_request>> line_;
  time_point line_made_ = time_point::min();
  std::vector<std::shared_ptr<pools>> pools_;  // for each target: its connections
  std::shared_ptr<retry_budget> budget_;
};

}  // namespace canigo::gateway
