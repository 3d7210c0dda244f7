#pragma once

#include <atomic>
#include <cstdint>

namespace canigo {

/// Keeps retries from overloading a service that is down. Each first attempt allows only a part of a retry.
///
/// Every first attempt pays in `percent` of a retry, and every retry takes one out. So when all attempts fail, the
/// load grows by `percent`, not by the number of attempts. Share one budget among all callers of the same service; it
/// must outlive them.
///
/// Source: the retry budgets of Finagle and of gRPC (gRFC A6).
/// Threads: any, all members, at once. Allocates: never.
class retry_budget {
 public:
  struct options {
    std::uint32_t percent = 20;  ///< of a retry that each first attempt pays in; 0 to 1000
    std::uint32_t reserve = 10;  ///< retries that are there at the start
    std::uint32_t most = 100;    ///< retries that can be saved up; at least `reserve`, at least 1
  };

  retry_budget() : retry_budget{options{}} {}
  /// Throws std::system_error, errc::invalid_argument.
  explicit retry_budget(const options& o);
  retry_budget(const retry_budget&) = delete;
  retry_budget& operator=(const retry_budget&) = delete;

  /// Pays in for one first attempt.
  void pay_in() noexcept;
  /// Takes one retry out, if there is one.
  [[nodiscard]] bool try_take() noexcept;
  /// The whole retries that are left.
  std::uint32_t left() const noexcept {
    return static_cast<std::uint32_t>(balance_.load(std::memory_order_relaxed) / 100);
  }

 private:
  std::atomic<std::uint64_t> balance_;  // in hundredths
  const std::uint64_t percent_;
  const std::uint64_t most_;
};

}  // namespace canigo
