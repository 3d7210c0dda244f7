#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <cstddef>
#include <thread>

namespace canigo::jobs::detail {

/// Callers whose steps were one transaction often come again together, one after the other. A short wait for the rest
/// lets them share the next transaction, too. Without it, one half of them waits for the disk while the other half
/// comes. A caller that comes alone waits for nobody, nor does a worker that ends a job and claims the next one.
class gathering {
 public:
  using clock = std::chrono::steady_clock;

  /// `size` counts the steps that wait, of which there are some.
  template <class Size>
  void wait(Size size) const {
    if (last_ < few) return;
    const auto end = clock::now() + took_ / 4;
    for (std::size_t before = size(); before < last_ && clock::now() + slice + slack <= end;) {
      std::this_thread::sleep_for(slice);
      const std::size_t there = size();
      if (there == before) return;
      before = there;
    }
  }
  void begin() noexcept { begun_ = clock::now(); }
  /// A transaction of so many steps has ended.
  void end(std::size_t steps) noexcept {
    last_ = steps;
    took_ = clock::now() - begun_;
  }

 private:
  /// Less than this are the steps of one worker.
  static constexpr std::size_t few = 4;
  static constexpr duration slice = std::chrono::microseconds{50};
  /// So much longer does the system let a thread sleep.
  static constexpr duration slack = std::chrono::microseconds{50};

  std::size_t last_ = 0;
  duration took_ = duration::zero();
  clock::time_point begun_ = {};
};

}  // namespace canigo::jobs::detail
