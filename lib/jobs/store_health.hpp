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

/// Remembers whether a service's calls to its store fail, separately for each purpose of the calls. For example, calls
/// that count jobs may fail while calls that claim jobs succeed.
class store_health {
 public:
  /// The purposes of calls. The claims of each queue are a purpose of their own: `claims` + i for the queue with the
  /// index i.
  enum purpose : std::size_t { listening, counts, runs, schedules, opening, claims };

  store_health(std::size_t queues, store_observer* observer) : failures_(claims + queues), observer_{observer} {}

  void failed(std::size_t of, const std::exception_ptr& error) noexcept;
  /// Notes a successful call. `has_written`: the call was a claim that got jobs, so the store accepts writes. Then the
  /// earlier errors of the purposes `runs` and `schedules` are cleared, too. Without that, each of these errors would
  /// be shown until the next successful call for its purpose, which may come much later.
  void succeeded(std::size_t of, bool has_written = false) noexcept;
  /// Fills in the number of failures, and the latest error among the purposes whose calls fail now.
  void show(service_stats& s) const;

 private:
  struct failure {
    std::uint32_t in_a_row = 0;
    std::uint64_t place = 0;  // the serial number of the latest error; the errors of all purposes are numbered together
    std::string text = {};
    std::error_code code = {};
  };

  mutable canigo::detail::mutex mutex_;
  std::vector<failure> failures_;
  std::uint64_t all_ = 0;
  store_observer* const observer_;
};

}  // namespace canigo::jobs::detail
