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

/// A flow takes some 300 bytes, and there may be thousands of tenants at each of thousands of hosts.
inline constexpr std::size_t most_flows_of_a_host = 256;

/// Whether `u` is a host of forward mode.
inline bool is_host(const upstream& u) noexcept { return u.prefix.empty(); }

/// The entrance to an upstream, or to a host of forward mode. It has one limit for all loops, with a share for each
/// tenant, and a pool of connections for each loop. There may be many hosts, so their shares are made on first use.
///
/// It belongs to one configuration. It shares the parts that outlive a reload, such as the limit, with its successor.
class upstream_queue {
 public:
  /// Its limit lives on the first loop. Throws system_error for a value that the library refuses.
  ///
  /// `store`: keeps the limits that instances share; null: no limit is shared.
  /// `before`: the same upstream in the configuration that this one is to replace; null: there is none. Connections are
  /// taken over from it if they lead to the same place.
  upstream_queue(const config& c, upstream u, const std::vector<net::any_io_executor>& loops, redis::client* store,
                 const upstream_queue* before = nullptr);
  upstream_queue(const upstream_queue&) = delete;
  upstream_queue& operator=(const upstream_queue&) = delete;

  /// Goes on with the limit of `before`, and changes its terms for all calls that wait. Both have the same number of
  /// rates, with the same units.
  ///
  /// The new terms grant no call sooner, and refuse none as too large, before end_take_over(). It is to be called once
  /// the calls that waited by the shares of `before` have moved to those of this queue.
  void take_over(const upstream_queue& before);
  void end_take_over() { limit_->end_change(upstream_); }

  const upstream& settings() const noexcept { return upstream_; }
  /// The settings as they are for one target.
  const upstream& settings(std::size_t target) const noexcept {
    return at_targets_.empty() ? upstream_ : at_targets_[target];
  }
  /// Its limits, pauses and breaker, which all generations of the configuration share.
  upstream_limit& limits() noexcept { return *limit_; }
  limiter& limit() noexcept { return limit_->local(); }
  /// The connections of a loop to a target.
  link_pool& pool(std::size_t loop, std::size_t target) noexcept { return *(*pools_[target])[loop]; }
  std::size_t targets() const noexcept { return pools_.size(); }
  retry_budget& budget() noexcept { return *budget_; }

  /// How long a call waits for a response before a second attempt begins beside the first. Nothing: there is no second
  /// attempt, or too few response times are known. Pays this call's part into the budget of hedges.
  std::optional<duration> hedge_after();

  /// The targets that may serve a tenant's call for this model: those that serve the model, without those that have
  /// told that its quota is used up. 0: there is none, as find_spent() tells, or no target serves the model.
  target_set candidates(std::size_t tenant, std::string_view model) const;

  /// The request of a tenant's call for these amounts, one of each unit that the upstream's rates count.
  request ask(std::size_t tenant, int priority, time_point deadline, std::uint64_t tag,
              std::span<const token_amount> amounts) const;
  /// Lowers the amounts of `r` to the most that the tenant may ask for at its targets. True if an amount was larger.
  bool lower_to_most(request& r, std::size_t tenant) const;
  /// The wait to tell a call that was refused and would be granted after `wait`: others may have been told that time
  /// already. The calls of a tenant with limits of its own are not spread.
  duration return_after(const request& refused, std::size_t tenant, duration wait);
  /// The first waiters, as they stood a second ago at most. Listing them sorts all waiters, under the lock of the
  /// limit.
  std::shared_ptr<const std::vector<waiting_request>> recent_line();
  /// The share that such a request names. It lives as long as a caller holds it.
  std::shared_ptr<const flow> share(std::size_t tenant) const { return share_of(tenant); }
  /// A target wants no call before `until`: of any tenant, or of this one alone if tenants bring their own credential.
  /// A pause that is on is only made longer.
  void pause(std::size_t target, std::size_t tenant, time_point until);

  /// The end of the pause after a refusal that names no wait, or a wait of zero, for the tenants that pause() would
  /// pause. The call began at `started`. `first`: see pause_growth.
  time_point end_of_growing_pause(std::size_t target, std::size_t tenant, time_point started, duration first) {
    return limit_->end_of_growing_pause(target, whose_pause(tenant), started, first);
  }
  /// Notes that a call that began at `started` has succeeded.
  void note_success(std::size_t target, std::size_t tenant, time_point started) {
    limit_->note_success(target, whose_pause(tenant), started);
  }
  /// See upstream_limit::note_failure().
  bool note_failure(std::size_t target, time_point started) { return limit_->note_failure(target, started); }
  /// See upstream_limit::refuse_key(). False, too, if tenants bring their own credential: the tenant's is wrong then.
  bool refuse_key(std::size_t target, time_point started) {
    return !upstream_.credential.is_passed() && limit_->refuse_key(target, started);
  }
  /// The answer of a target to a call of the tenant says that a quota is used up: of `told.model`, or of all models if
  /// that is empty. It is one of the day unless a reset was told. Where tenants bring their own credential, it is the
  /// tenant's.
  void note_spent(std::size_t target, std::size_t tenant, spent_quota told);
  /// The quota that refuses a call of the tenant for this model until its reset; nothing: a target that serves the
  /// model takes the call. Of several, it is the one that is whole first.
  std::optional<spent_quota> find_spent(std::size_t tenant, std::string_view model) const;
  /// The end of the last pause that a target wanted of the tenant; in the past: it wants none.
  time_point paused_until(std::size_t target, std::size_t tenant) const;

  /// Learns from the quotas that a target's response reports, unless tenants bring their own credential: these say
  /// nothing about the other tenants.
  void learn(std::size_t target, const told_limits& told);

  /// Whether a new queue would be in the same state: no call waits or runs, all rates are full, no pause is on, and the
  /// breaker is closed. Ask only while no call uses the queue.
  bool is_as_new(time_point now) const;

 private:
  using pools = std::vector<std::unique_ptr<link_pool>>;  // by loop

  void take_pools(const upstream_queue* before, const std::vector<net::any_io_executor>& loops);
  bool takes(std::size_t target, std::size_t tenant, std::string_view model) const {
    return !limit_->find_spent(target, whose_pause(tenant), model);
  }

  /// Names a group of pauses that grow together: a tenant's name, or the empty name for all tenants.
  std::string_view whose_pause(std::size_t tenant) const noexcept {
    return upstream_.credential.is_passed() ? std::string_view{tenants_[tenant].name} : std::string_view{};
  }
  /// The share is made if it does not exist. It does not change later.
  const std::shared_ptr<flow>& share_of(std::size_t tenant) const;
  std::shared_ptr<flow> make_share(std::size_t tenant) const;
  std::shared_ptr<flow> continue_share(std::size_t tenant, const upstream_queue& before, std::size_t old) const;

  const upstream upstream_;
  const std::vector<upstream> at_targets_;  // the settings for each target; empty without a list of targets
  const std::vector<tenant>& tenants_;
  std::shared_ptr<upstream_limit> limit_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, std::shared_ptr<flow>> shares_;  // by tenant
  mutable std::shared_ptr<flow> others_;  // the share of the tenants of a host that come after many others
  std::map<std::pair<int, std::size_t>, return_times> returns_;  // by priority and tenant
  std::mutex line_mutex_;
  std::shared_ptr<const std::vector<waiting_request>> line_;
  time_point line_made_ = time_point::min();
  std::vector<std::shared_ptr<pools>> pools_;  // by target
  std::shared_ptr<retry_budget> budget_;
};

}  // namespace canigo::gateway
