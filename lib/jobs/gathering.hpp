#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

namespace canigo::jobs::detail {

/// Waits briefly so that more operations share a transaction. Callers whose operations shared a transaction often call
/// again at about the same time. Without the wait, half of these calls would come during the next transaction, and
/// would wait for the disk twice. A single caller is not delayed. A worker that ends a job and claims the next job is
/// not delayed, either.
class gathering {
 public:
  using clock = std::chrono::steady_clock;

  /// Waits for more operations if the last transaction had at least `few` operations. Returns how many operations are
  /// ready for the next transaction at the end of the wait. `size` returns the current number of such operations.
  template <class Size>
  std::size_t wait(Size size) const {
    std::size_t there = size();
    if (there == 0 || last_ < few) return there;
    const auto end = clock::now() + took_ / 4;
    for (std::size_t before = 0; there != before && there < last_ && clock::now() + slice_takes <= end;) {
      std::this_thread::sleep_for(slice);
      before = std::exchange(there, size());
    }
    return there;
  }
  /// Calls `carry_out`, which runs a transaction of `steps` operations. Remembers `steps` and the duration of the
  /// transaction.
  template <class Transaction>
  void note(std::size_t steps, Transaction carry_out) {
    const auto begun = clock::now();
    carry_out();
    last_ = steps;
    took_ = clock::now() - begun;
  }

 private:
  /// If the last transaction had fewer operations than this, wait() returns immediately, because a single worker may
  /// have started all of these operations.
  static constexpr std::size_t few = 4;
  static constexpr duration slice = std::chrono::microseconds{50};
  /// The expected duration of a sleep of `slice`. It is longer than `slice`, because the system wakes a thread late.
  static constexpr duration slice_takes = 2 * slice;

  std::size_t last_ = 0;
  duration took_ = duration::zero();
};

}  // namespace canigo::jobs::detail
