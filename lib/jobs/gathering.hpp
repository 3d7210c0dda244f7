#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

namespace canigo::jobs::detail {

/// Callers whose steps were one transaction often come again together, one after the other. A short wait for the rest
/// lets them share the next transaction, too. Without it, one half of them waits for the disk while the other half
/// comes. A caller that comes alone does not wait, nor does a worker that ends a job and claims the next one.
class gathering {
 public:
  using clock = std::chrono::steady_clock;

  /// `size` counts the steps that wait. Returns how many there are in the end.
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
  /// Carries out a transaction of so many steps.
  template <class Transaction>
  void note(std::size_t steps, Transaction carry_out) {
    const auto begun = clock::now();
    carry_out();
    last_ = steps;
    took_ = clock::now() - begun;
  }

 private:
  /// Fewer steps than this may be those of one worker.
  static constexpr std::size_t few = 4;
  static constexpr duration slice = std::chrono::microseconds{50};
  /// The system lets a thread sleep for longer.
  static constexpr duration slice_takes = 2 * slice;

  std::size_t last_ = 0;
  duration took_ = duration::zero();
};

}  // namespace canigo::jobs::detail
