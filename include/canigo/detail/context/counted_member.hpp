#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/context_service.hpp"
#include "canigo/detail/time/steady_now.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <utility>

namespace canigo::detail {

/// A member of a context that is counted: it goes when nobody refers to it any more. Its context may go earlier, later,
/// or just then on another thread.
class counted_member : private context_member {
 public:
  void add_ref() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release_ref() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) unreferenced();
  }
  /// From any thread: of the context, as long as it is there.
  context_visit visit() noexcept;

 protected:
  /// Begins with one reference. What is derived calls join() once it is made.
  explicit counted_member(const net::any_io_executor& executor);
  virtual ~counted_member() = default;
  void join() noexcept { context_->add(*this); }

  /// Deletes this, unless something else is about to.
  void unreferenced() noexcept;
  /// Of the context, which must not be gone.
  context_visits& visits() const noexcept { return context_->visits(); }
  /// What is ready and can't be posted any more stays until the context ends this, as does this. Under the lock, where
  /// a visit was refused.
  void leave_to_context() noexcept {
    if (!std::exchange(has_left_something_, true)) add_ref();
  }
  /// Whether this can go at once; if not, unreferenced() is to be called again. Under the lock, while the context is
  /// there.
  virtual bool may_go() noexcept { return true; }
  /// Gives up what reaches for the context, also when it goes with this. Under the lock, where nobody refers to this;
  /// maybe twice.
  virtual void let_go_of_context() noexcept = 0;
  /// The context is going: destroy what waits, call nothing, touch the context no more. With a reference held.
  virtual void end_with_context() noexcept = 0;

  /// The time, also without the lock and without a context; a virtual one only with them.
  time_point clock() const noexcept {
    if (!is_virtual_) [[likely]]
      return steady_now();
    return time_ != nullptr ? time_->now() : time_point::min();
  }

  mutable mutex mutex_;
  bool context_gone_ = false;
  time_source* time_;
  const bool is_virtual_;

 private:
  void context_shutdown() noexcept final;
  bool add_ref_if_there_is_one() noexcept;

  bool has_left_something_ = false;  // for end_with_context(): a reference is held until then
  bool is_left_to_context_ = false;  // unreferenced when the context was about to shut it down: deleted by that
  atomic<std::size_t> references_{1};
  context_service* context_;
};

}  // namespace canigo::detail
