#pragma once

#include "canigo/flow.hpp"
#include "canigo/limiter.hpp"
#include "canigo/resource_pool.hpp"
#include "canigo/retry_budget.hpp"

#include "gateway/config/config.hpp"
#include "gateway/policy/token_amounts.hpp"
#include "gateway/policy/token_ratios.hpp"
#include "gateway/upstream/link.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// What stands before an upstream: one limit for all loops, with a share for each tenant, and for each loop a pool of
/// connections.
///
/// It belongs to one configuration. What has to outlive a reload, such as the limit, it shares with its successor.
class upstream_queue {
 public:
  /// Its limit lives on the first loop. Throws system_error for a value that the library refuses.
  ///
  /// `before`: the same upstream in the configuration that this one is to replace, if any. Connections are taken over
  /// from it if they lead to the same place.
  upstream_queue(const config& c, const upstream& u, const std::vector<net::any_io_executor>& loops,
                 const upstream_queue* before = nullptr);
  upstream_queue(const upstream_queue&) = delete;
  upstream_queue& operator=(const upstream_queue&) = delete;

  /// Goes on with the limit of `before`, and changes its terms for all who wait, at once. Both have as many rates, of
  /// the same units.
  void take_over(const upstream_queue& before);

  const upstream& settings() const noexcept { return upstream_; }
  limiter& limit() noexcept { return limit_->limit; }
  resource_pool<link>& pool(std::size_t loop) noexcept { return *(*pools_)[loop]; }
  retry_budget& budget() noexcept { return *budget_; }

  /// How the usage of calls compares with their estimates.
  token_ratios& ratios() noexcept { return limit_->ratios; }

  /// The request of a tenant's call for these amounts, one of each unit that the upstream's rates count.
  request ask(std::size_t tenant, int priority, time_point deadline, std::uint64_t tag,
              std::span<const token_amount> amounts) const;
  /// The share that such a request names. It lives as long as somebody holds it.
  std::shared_ptr<const flow> share(std::size_t tenant) const { return shares_[tenant].part; }
  /// Charges the permit what was used of each unit.
  void settle(permit& p, std::span<const token_amount> used) const;
  /// The upstream wants no call before `until`: of anybody, or of this tenant alone if tenants bring their own
  /// credential. A pause that is on is only made longer.
  void pause(std::size_t tenant, time_point until);
  /// Until when this tenant is paused, and the others are not.
  time_point paused_until(std::size_t tenant) const noexcept {
    return time_point{duration{shares_[tenant].pause->load(std::memory_order_relaxed)}};
  }

  /// Takes back everything that the permit stands for: nothing has been sent.
  void give_back(permit& p) const;

 private:
  using pause_end = std::atomic<duration::rep>;
  using pools = std::vector<std::unique_ptr<resource_pool<link>>>;  // by loop

  /// What a reload keeps.
  struct shared_limit {
    shared_limit(const net::any_io_executor& e, const limiter_options& o) : limit{e, o} {}
    limiter limit;
    token_ratios ratios;
    pause_end pause{0};
  };
  struct tenant_share {
    std::shared_ptr<flow> part;
    std::shared_ptr<pause_end> pause;
  };

  void take_over_share(std::size_t tenant, const upstream_queue& before);

  const upstream& upstream_;
  const std::vector<tenant>& tenants_;
  const std::vector<std::string> units_;  // in the order of their numbers
  std::shared_ptr<shared_limit> limit_;
  std::vector<tenant_share> shares_;  // by tenant
  std::shared_ptr<pools> pools_;
  std::shared_ptr<retry_budget> budget_;
};

}  // namespace canigo::gateway
