#pragma once

#include <atomic>

namespace canigo::detail {

/// The library's only lock, for critical sections of some tens of instructions.
///
/// A free one costs one exchange and one store, half of std::mutex. At a taken one a thread spins briefly, then yields,
/// then sleeps, so that a holder that lost its core gets one. Never hold it while user code runs. docs/decisions/0001
/// has the reasons and the price.
class mutex {
 public:
  mutex() noexcept = default;
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  void lock() noexcept {
    if (locked_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      lock_slowly();
  }

  bool try_lock() noexcept {
    return !locked_.load(std::memory_order_relaxed) && !locked_.exchange(true, std::memory_order_acquire);
  }

  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  void lock_slowly() noexcept;

  std::atomic<bool> locked_{false};
};

}  // namespace canigo::detail
