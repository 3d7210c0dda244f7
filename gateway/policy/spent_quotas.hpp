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

/// A quota of which an upstream has said that nothing is left: one of a day, or one with a reset in more than an hour.
struct spent_quota {
  std::string tenant = {};                    ///< with a credential of its own; empty: the gateway's
  std::string model = {};                     ///< empty: of all models
  std::string name = {};                      ///< as the upstream calls it
  std::string request = {};                   ///< it got the answer that says so
  quota_reset resets = quota_reset::unknown;  ///< unknown: at the time that was told
  std::chrono::sys_seconds reset = {};
  time_point until = {};  ///< the same instant
};

/// The quotas of an upstream that are used up. A value.
///
/// It knows the last 256, as models have the names that clients give them.
class spent_quotas {
 public:
  static constexpr std::size_t most = 256;

  /// Takes the place of what was told of the same tenant and model.
  void note(spent_quota q, time_point now) {
    std::erase_if(all_,
                  [&](const spent_quota& s) { return s.until <= now || (s.tenant == q.tenant && s.model == q.model); });
    if (all_.size() >= most) all_.erase(all_.begin());
    all_.push_back(std::move(q));
  }
  /// The one that refuses a call of this tenant for this model; null: none does. The reference holds until the next
  /// change.
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
  std::vector<spent_quota> all_;  // the last one told of is the last
};

}  // namespace canigo::gateway
