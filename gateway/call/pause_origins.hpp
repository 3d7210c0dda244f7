#pragma once

#include "gateway/call/call_record.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Stores, for each upstream, the last response that asked for a pause. Threads: any.
class pause_origins {
 public:
  struct origin {
    std::chrono::system_clock::time_point time;
    std::string request, tenant, target;
    int status = 0;
    bool is_of_tenant = false;  ///< true: the pause affects only the tenant of the request
  };

  /// `target`: the target that has answered; empty if the upstream has no list of targets.
  void note(const call_record& r, std::string_view target, int status, bool is_of_tenant) {
    origin o{.time = std::chrono::system_clock::now(),
             .request = r.id,
             .tenant = std::string{r.tenant},
             .target = std::string{target},
             .status = status,
             .is_of_tenant = is_of_tenant};
    const std::lock_guard lock{mutex_};
    constexpr std::size_t most = 1000;
    if (by_upstream_.size() >= most && !by_upstream_.contains(r.upstream)) return;
    by_upstream_.insert_or_assign(std::string{r.upstream}, std::move(o));
  }
  std::optional<origin> of(std::string_view upstream) const {
    const std::lock_guard lock{mutex_};
    const auto found = by_upstream_.find(upstream);
    if (found == by_upstream_.end()) return std::nullopt;
    return found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, origin, std::less<>> by_upstream_;
};

}  // namespace canigo::gateway
