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

/// The counts of all requests, by the properties that they share. The number of series is bounded.
///
/// Each loop counts for itself, so no loop waits for another one's count.
/// Threads: any.
class call_counts {
 public:
  /// The tenants from this one on are counted as "other", and so is what comes when there are too many series.
  static constexpr std::size_t most_tenants = 256;
  static constexpr std::size_t most_series = 10'000;

  explicit call_counts(std::size_t loops);
  ~call_counts();
  call_counts(const call_counts&) = delete;
  call_counts& operator=(const call_counts&) = delete;

  struct key {
    std::string upstream, tenant, priority, error;
    int status = 0;  ///< 0: none; below 0: any
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
    std::map<std::pair<std::string, std::string>, micro_usd> spent;  ///< by the tenant, and the pattern of the price
  };
  struct totals {
    std::map<key, std::uint64_t> requests;
    std::map<std::string, of_upstream, std::less<>> upstreams;
  };

  /// Counts a request that has ended on that loop.
  void count(std::size_t loop, const call_record& r);
  totals all() const;

  /// Counts a call of this tenant that asked for a class above the tenant's best, and is served as the best.
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
  std::atomic<std::int64_t> tunnels{0};  ///< how many of `running` are open tunnels, or become one
  std::atomic<std::uint64_t> reloads{0};
  std::atomic<std::uint64_t> reloads_refused{0};
  std::atomic<std::uint64_t> hedges{0};           ///< attempts beside a slow one
  std::atomic<std::uint64_t> hedges_won{0};       ///< how many of these hedges answered
  std::atomic<std::uint64_t> resends{0};          ///< calls sent again that keep their first arrival
  std::atomic<std::uint64_t> kept_by_interim{0};  ///< calls that waited, and whose client got interim responses
  std::atomic<std::uint64_t> kept_by_events{0};   ///< calls whose client got the head of a response and comments
  std::atomic<std::uint64_t> kept_failed{0};      ///< how many of these calls ended with a failure as an event
  std::atomic<std::uint64_t> usage_missing{0};    ///< calls whose upstream should have told its usage, and has not

 private:
  struct part;

  std::vector<std::unique_ptr<part>> parts_;  // by loop
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> lowered_;
  std::array<std::atomic<std::uint64_t>, retry_reason_names.size()> retries_{};
};

}  // namespace canigo::gateway
