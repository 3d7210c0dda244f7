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
#include <vector>

namespace canigo::gateway {

/// What stands before an upstream: one limit for all loops, with a share for each tenant, and for each loop a pool of
/// connections.
class upstream_queue {
 public:
  /// Its limit lives on the first loop. Throws system_error for a value that the library refuses.
  upstream_queue(const config& c, const upstream& u, const std::vector<net::any_io_executor>& loops);
  upstream_queue(const upstream_queue&) = delete;
  upstream_queue& operator=(const upstream_queue&) = delete;

  const upstream& settings() const noexcept { return upstream_; }
  limiter& limit() noexcept { return limit_; }
  resource_pool<link>& pool(std::size_t loop) { return *pools_[loop]; }
  retry_budget& budget() noexcept { return budget_; }

  /// How the usage of calls compares with their estimates.
  token_ratios& ratios() noexcept { return ratios_; }

  /// The request of a tenant's call for these amounts, one of each unit that the upstream's rates count.
  request ask(std::size_t tenant, int priority, time_point deadline, std::uint64_t tag,
              std::span<const token_amount> amounts) const;
  /// Charges the permit what was used of each unit.
  void settle(permit& p, std::span<const token_amount> used) const;
  /// The upstream wants no call before `until`: of anybody, or of this tenant alone if tenants bring their own
  /// credential. A pause that is on is only made longer.
  void pause(std::size_t tenant, time_point until);
  /// Until when this tenant is paused, and the others are not.
  time_point paused_until(std::size_t tenant) const noexcept {
    return time_point{duration{own_pauses_[tenant].load(std::memory_order_relaxed)}};
  }

  /// Takes back everything that the permit stands for: nothing has been sent.
  void give_back(permit& p) const;

 private:
  const upstream& upstream_;
  limiter limit_;
  std::vector<std::string> units_;            // in the order of their numbers
  std::vector<std::unique_ptr<flow>> flows_;  // by tenant
  std::vector<std::unique_ptr<resource_pool<link>>> pools_;
  retry_budget budget_;
  token_ratios ratios_;
  std::vector<std::atomic<duration::rep>> own_pauses_;  // by tenant
  std::atomic<duration::rep> pause_{0};
};

}  // namespace canigo::gateway
