#pragma once

#include "canigo/time.hpp"

#include "gateway/config/config.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::gateway {

/// A used-up quota that an upstream's response has reported: a daily quota, or a quota whose reset is more than an hour
/// away.
struct spent_quota {
  std::string tenant = {};   ///< the tenant whose own credential was used; empty: the gateway's credential was used
  std::string model = {};    ///< the model of the quota; empty: it covers all models
  std::string name = {};     ///< the name that the upstream gives the quota
  std::string request = {};  ///< the id of the request whose response reported the quota
  /// The configured time of day at which the quota resets; unknown: the response named the reset time.
  quota_reset resets = quota_reset::unknown;
  std::chrono::sys_seconds reset = {};
  time_point until = {};  ///< the time `reset`, converted to the steady clock
};

/// The used-up quotas of an upstream. A value type.
///
/// Only the last 256 quotas are kept. Clients choose the names of models, so the number of quotas would otherwise have
/// no bound.
class spent_quotas {
 public:
  static constexpr std::size_t most = 256;

  /// Adds a quota. It replaces an earlier quota of the same tenant and model.
  void note(spent_quota q, time_point now) {
    std::erase_if(all_,
                  [&](const spent_quota& s) { return s.until <= now || (s.tenant == q.tenant && s.model == q.model); });
    if (all_.size() >= most) all_.erase(all_.begin());
    all_.push_back(std::move(q));
  }
  /// Returns a used-up quota that forbids a call of this tenant for this model; null if there is none. The pointer is
  /// valid until a quota is added or forgotten.
  const spent_quota* find(std::string_view tenant, std::string_view model, time_point now) const noexcept {
    const auto found = std::ranges::find_if(all_, [&](const spent_quota& s) {
      return s.until > now && s.tenant == tenant && (s.model.empty() || s.model == model);
    });
    return found == all_.end() ? nullptr : &*found;
  }
  std::vector<spent_quota> all(time_point now) const {
    std::vector<spent_quota> left;
    std::ranges::copy_if(all_, std::back_inserter(left), [&](const spent_quota& s) { return s.until > now; });
    return left;
  }
  void forget() noexcept { all_.clear(); }

 private:
  std::vector<spent_quota> all_;  // in the order in which they were reported
};

}  // namespace canigo::gateway
