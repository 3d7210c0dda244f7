#pragma once

#include "explorer.hpp"

namespace canigo::detail {

/// Replaces the library's lock in models: a thread may be preempted before it takes the lock.
class mutex {
 public:
  mutex() noexcept = default;
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  void lock() noexcept {
    interleaving::explorer::step("lock");
    while (locked_)
      interleaving::explorer::wait([](const void* m) { return !static_cast<const mutex*>(m)->locked_; }, this);
    locked_ = true;
  }
  bool try_lock() noexcept {
    interleaving::explorer::step("try_lock");
    if (locked_) return false;
    locked_ = true;
    return true;
  }
  void unlock() noexcept { locked_ = false; }

 private:
  bool locked_ = false;
};

}  // namespace canigo::detail
