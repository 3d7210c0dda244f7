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

/// Remembers, by purpose, whether the calls of a service to its store fail: counts may fail while claims succeed.
class store_health {
 public:
  /// The claims of each queue have a purpose of their own from `claims` on.
  enum purpose : std::size_t { listening, counts, runs, schedules, opening, claims };

  store_health(std::size_t queues, store_observer* observer) : failures_(claims + queues), observer_{observer} {}

  void failed(std::size_t of, const std::exception_ptr& error) noexcept;
  /// `has_written`: it was a claim that brought jobs, so the store takes writes. Then errors of other writes, which
  /// come seldom, count no more.
  void succeeded(std::size_t of, bool has_written = false) noexcept;
  /// Fills in the last error of the calls that fail.
  void show(service_stats& s) const;

 private:
  struct failure {
    std::uint32_t in_a_row = 0;
    std::uint64_t place = 0;  // among all
    std::string text = {};
    std::error_code code = {};
  };

  mutable canigo::detail::mutex mutex_;
  std::vector<failure> failures_;
  std::uint64_t all_ = 0;
  store_observer* const observer_;
};

}  // namespace canigo::jobs::detail
