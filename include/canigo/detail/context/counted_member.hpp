#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/context_service.hpp"
#include "canigo/detail/time/processor_clock.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <utility>

namespace canigo::detail {

/// An object with a reference count that uses an execution context. It is deleted when its last reference is released.
/// The context may be destroyed before this object, after it, or at the same moment by another thread.
class counted_member : private context_member {
 public:
  void add_ref() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release_ref() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) unreferenced();
  }
  /// Returns a visit. While the visit exists, the destruction of the context waits. If the context no longer exists,
  /// lasts() of the visit returns false. Any thread may call visit().
  context_visit visit() noexcept;

 protected:
  /// Starts with one reference. The derived class must call join() at the end of its constructor, or after it.
  explicit counted_member(const net::any_io_executor& executor);
  virtual ~counted_member() = default;
  void join() noexcept { context_->add(*this); }

  /// Deletes this object, unless the shutdown of the context will do that.
  void unreferenced() noexcept;
  /// The counter of the visits of the context. Precondition: the context exists.
  context_visits& visits() const noexcept { return context_->visits(); }
  /// If visit().lasts() has returned false, ready callers can't be posted any more. In that case call this function
  /// under the lock. This function keeps the ready callers and this object until the context calls end_with_context().
  void leave_to_context() noexcept {
    if (!std::exchange(has_left_something_, true)) add_ref();
  }
  /// Whether this object can be deleted now. If not, the derived class must call unreferenced() again later. Called
  /// under the lock, while the context exists.
  virtual bool may_go() noexcept { return true; }
  /// Resets all data members whose use or destructor needs the context. Called under the lock when no reference is
  /// left, possibly twice.
  virtual void let_go_of_context() noexcept = 0;
  /// Called when the context shuts down, while a reference is held. The derived class must destroy the waiters. It must
  /// not call any handler. After this call it must not use the context.
  virtual void end_with_context() noexcept = 0;

  /// Returns the current time. To read real time, the caller needs neither the lock nor the context. To read virtual
  /// time, it needs both.
  time_point clock() const noexcept {
    if (!is_virtual_) [[likely]]
      return processor_clock.now();
    return time_ != nullptr ? time_->now() : time_point::min();
  }

  mutable mutex mutex_;
  bool context_gone_ = false;
  time_source* time_;
  const bool is_virtual_;

 private:
  void context_shutdown() noexcept final;
  bool add_ref_if_there_is_one() noexcept;

  // whether leave_to_context() was called; then a reference is held until end_with_context()
  bool has_left_something_ = false;
  // whether the last reference was released during the shutdown; then context_shutdown() deletes this object
  bool is_left_to_context_ = false;
  atomic<std::size_t> references_{1};
  context_service* context_;
};

}  // namespace canigo::detail
