#pragma once

#include <cstddef>

namespace canigo::detail {

/// Tracks which workers of a pool wait for the pool itself, inside their operations. If all of them waited, no worker
/// could end such a wait.
///
/// Threads: not thread-safe; its owner must hold a lock.
class self_wait {
 public:
  class waiter;

  /// The base class of a pool's worker. It lists the waits in which the worker's operation waits for the pool itself.
  class worker {
   public:
    worker() noexcept = default;
    worker(const worker&) = delete;
    worker& operator=(const worker&) = delete;
    /// The wait that the worker's operation has begun last; nullptr if the operation does not wait for the pool.
    waiter* first_self_wait() const noexcept { return first_; }

   private:
    friend class self_wait;
    waiter* first_ = nullptr;
  };

  /// The base class of a caller that waits for the pool.
  class waiter {
   public:
    waiter() noexcept = default;
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;
    /// Records that this is a wait of the operation that `w` runs.
    void comes_from(worker& w) noexcept { inside_ = &w; }
    /// The worker whose operation waits with this object; nullptr if the wait is not inside an operation.
    worker* inside() const noexcept { return inside_; }
    waiter* next_self_wait() const noexcept { return next_; }

   private:
    friend class self_wait;
    worker* inside_ = nullptr;
    waiter* next_ = this;  // the next wait of the same worker; `this`: the waiter does not hold up a worker
  };

  /// Begins a wait for the pool inside an operation. Returns false, and begins no wait, if all other workers already
  /// wait in this way. `able`: the number of workers that may run operations at the same time.
  bool begin(waiter& w, std::size_t able) noexcept;
  /// Ends a wait that begin() has begun; otherwise does nothing.
  void end(waiter& w) noexcept {
    if (w.next_ != &w) remove(w);
  }
  /// Call it when the operation of `w` has ended. The operation's remaining waits no longer hold up a worker.
  void disown(worker& w) noexcept;
  /// Whether all workers that run an operation wait for the pool, and no other worker may run an operation.
  bool is_hopeless(std::size_t running, std::size_t able) const noexcept {
    return blocked_ > 0 && blocked_ == running && blocked_ >= able;
  }

 private:
  void remove(waiter& w) noexcept;

  std::size_t blocked_ = 0;  // number of workers that wait for the pool
};

}  // namespace canigo::detail
