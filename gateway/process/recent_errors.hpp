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

/// The last requests that failed: the gateway refused them, or their upstream answered 500 or more. Threads: any.
class recent_errors {
 public:
  static constexpr std::size_t most = 100;

  /// Requests that failed for one cause. The fields other than `count` are those of the last one.
  struct entry {
    std::chrono::system_clock::time_point time;
    std::string id, tenant, priority, upstream, method, path, error, detail;
    int status = 0;
    int attempts = 0;
    duration waited{};
    std::uint64_t count = 1;

    /// Whether both failed for one cause, and were of one kind.
    bool is_like(const entry& other) const noexcept;
  };

  /// Keeps the request if it failed.
  void note(const call_record& r);
  /// The newest first.
  std::vector<entry> all() const;

 private:
  mutable std::mutex mutex_;
  std::deque<entry> entries_;  // the newest first
};

}  // namespace canigo::gateway
