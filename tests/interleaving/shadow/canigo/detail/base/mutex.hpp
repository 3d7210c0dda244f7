#pragma once

#include "explorer.hpp"

namespace canigo::detail {

/// Stands in for the library's lock: a thread of the model may be preempted before it takes it.
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
