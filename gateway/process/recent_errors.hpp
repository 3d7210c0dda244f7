#pragma once

#include "gateway/call/call_record.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace canigo::gateway {

/// Keeps the last failed requests: those that the gateway refused, and those whose upstream answered with status 500 or
/// more. Threads: any.
class recent_errors {
 public:
  static constexpr std::size_t most = 100;

  /// Failed requests with the same status, upstream, tenant, priority, error and detail. `count` is the number of these
  /// requests; the other fields describe the last one.
  struct entry {
    std::chrono::system_clock::time_point time;
    std::string id, tenant, priority, upstream, method, path, error, detail;
    int status = 0;
    int attempts = 0;
    duration waited{};
    std::uint64_t count = 1;

    /// Whether both entries have the same status, upstream, tenant, priority, error and detail.
    bool is_like(const entry& other) const noexcept;
  };

  /// Adds the request if it has failed.
  void note(const call_record& r);
  /// Returns all entries; the newest one is the first.
  std::vector<entry> all() const;

 private:
  mutable std::mutex mutex_;
  std::deque<entry> entries_;  // the newest entry is the first
};

}  // namespace canigo::gateway
