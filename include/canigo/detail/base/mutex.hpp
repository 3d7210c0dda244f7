#pragma once

#include <atomic>

namespace canigo::detail {

/// The only lock type of the library, for critical sections of some tens of instructions.
///
/// Locking and unlocking a free lock costs one exchange and one store, half of std::mutex. If the lock is taken, a
/// thread spins briefly, then yields, then sleeps, so that a holder that lost its core can run. Never call user code
/// under it. docs/decisions/0001 has the reasons and the disadvantages.
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
