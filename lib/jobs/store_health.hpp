#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/jobs/service_stats.hpp"
#include "canigo/jobs/store_observer.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

namespace canigo::jobs::detail {

/// Remembers, separately for each purpose, whether a service's calls of its store fail. For example, counts may fail
/// while claims succeed.
class store_health {
 public:
  /// Each queue has its own purpose for its claims. These purposes are numbered from `claims` on.
  enum purpose : std::size_t { listening, counts, runs, schedules, opening, claims };

  store_health(std::size_t queues, store_observer* observer) : failures_(claims + queues), observer_{observer} {}

  void failed(std::size_t of, const std::exception_ptr& error) noexcept;
  /// Notes a successful call. `has_written`: the call was a claim that got jobs, so the store accepts writes. Then
  /// earlier errors of other writes are forgotten, because such writes are rare.
  void succeeded(std::size_t of, bool has_written = false) noexcept;
  /// Fills in the latest error of the calls that fail.
  void show(service_stats& s) const;

 private:
  struct failure {
    std::uint32_t in_a_row = 0;
    std::uint64_t place = 0;  // the number of this error, counted over all purposes
    std::string text = {};
    std::error_code code = {};
  };

  mutable canigo::detail::mutex mutex_;
  std::vector<failure> failures_;
  std::uint64_t all_ = 0;
  store_observer* const observer_;
};

}  // namespace canigo::jobs::detail
