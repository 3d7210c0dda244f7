#pragma once

#include "canigo/algorithms/histogram.hpp"

#include "gateway/call/call_record.hpp"

#include <array>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace canigo::gateway {

/// Why a request was sent to its upstream again.
enum class retry_reason : std::uint8_t { connect, refused, lost, late };
inline constexpr std::array<std::string_view, 4> retry_reason_names{"connect", "refused", "lost", "late"};

/// Counts all requests by tenant, upstream, priority class and other properties. The number of series is bounded.
///
/// Each event loop has its own counters, so loops do not contend for them. Threads: any.
class call_counts {
 public:
  /// Tenants from this index on are counted together as the tenant "other". After `most_series` series, requests that
  /// would start a new series are counted under "other", too.
  static constexpr std::size_t most_tenants = 256;
  static constexpr std::size_t most_series = 10'000;

  explicit call_counts(std::size_t loops);
  ~call_counts();
  call_counts(const call_counts&) = delete;
  call_counts& operator=(const call_counts&) = delete;

  struct key {
    std::string upstream, tenant, priority, error;
    int status = 0;  ///< the status of the response; 0: no response; below 0: stands for all statuses
    auto operator<=>(const key&) const = default;
  };
  struct tokens {
    std::uint64_t asked = 0;
    std::uint64_t input = 0;
    std::uint64_t output = 0;
  };
  struct of_upstream {
    wait_histogram first_byte;
    wait_histogram total;
    std::map<std::string, tokens, std::less<>> by_tenant;
    /// The cost of ended calls, by the tenant and by the model pattern of the price that was used.
    std::map<std::pair<std::string, std::string>, micro_usd> spent;
  };
  struct totals {
    std::map<key, std::uint64_t> requests;
    std::map<std::string, of_upstream, std::less<>> upstreams;
  };

  /// Counts a request that has ended. `loop`: the index of the event loop on which the request ran.
  void count(std::size_t loop, const call_record& r);
  totals all() const;

  /// Counts a call that asked for a more important class than its tenant may use. Such a call is served in the tenant's
  /// most important class.
  void count_lowered(const std::string& tenant);
  std::map<std::string, std::uint64_t> lowered() const;

  void count_retry(retry_reason why) noexcept {
    retries_[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t retries(retry_reason why) const noexcept {
    return retries_[static_cast<std::size_t>(why)].load(std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> bytes_in{0};
  std::atomic<std::uint64_t> bytes_out{0};
  std::atomic<std::int64_t> running{0};
  std::atomic<std::int64_t> tunnels{0};  ///< the number of tunnels among the `running` calls
  std::atomic<std::uint64_t> reloads{0};
  std::atomic<std::uint64_t> reloads_refused{0};
  /// the number of second attempts that were started beside a slow first attempt
  std::atomic<std::uint64_t> hedges{0};
  std::atomic<std::uint64_t> hedges_won{0};  ///< the number of `hedges` whose response went to the client
  /// the number of calls that a client sent again after it had disconnected, and that kept their first arrival time
  std::atomic<std::uint64_t> resends{0};
  /// the number of calls whose client got interim responses while the call waited
  std::atomic<std::uint64_t> kept_by_interim{0};
  /// The number of calls whose client got the head of an event stream, and comments, while the call waited.
  std::atomic<std::uint64_t> kept_by_events{0};
  /// the number of calls in `kept_by_events` that ended with an error event
  std::atomic<std::uint64_t> kept_failed{0};
  /// the number of calls whose upstream should have reported their usage of tokens, but has not
  std::atomic<std::uint64_t> usage_missing{0};

 private:
  struct part;

  std::vector<std::unique_ptr<part>> parts_;  // element i: the counters of the event loop with index i
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> lowered_;
  std::array<std::atomic<std::uint64_t>, retry_reason_names.size()> retries_{};
};

}  // namespace canigo::gateway
