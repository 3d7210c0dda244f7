#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/post.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/stealing/lengths.hpp"
#include "canigo/detail/stealing/steal_ring.hpp"

#include <cstddef>

namespace canigo::detail {

/// A queue that one thread at a time owns: the one that runs the pump. Other pumps take from it.
///
/// Items for which the ring has no room wait in a list, under a lock that is free unless another pump takes from the
/// list. The ring has the items that came first, so the order is that of the pushes.
class pump {
 public:
  /// The owner.
  void push(work_item& item) noexcept;
  /// The owner: puts all of `items` at the end.
  void push_all(item_list<work_item>&& items, std::size_t n) noexcept;
  /// The owner: the item that came first, or nullptr.
  work_item* pop() noexcept;
  /// The owner of this pump, which has no work: takes some of what `victim` has. Returns the first of it; the rest is
  /// here. nullptr if there was nothing.
  work_item* steal_from(pump& victim) noexcept;

  /// Any thread. An item that was pushed before, and that no pump takes during the call, makes this true.
  bool has_work() const noexcept;

  /// Room for the operation by which the loop runs this. In use while the pump is posted.
  fixed_memory<160>& memory() noexcept { return memory_; }

 private:
  friend class pump_crew;

  work_item* take_from_list(pump& taker, std::size_t most) noexcept;
  std::size_t list_size() const noexcept { return list_size_.load(std::memory_order_acquire); }

  steal_ring ring_;
  mutex mutex_;
  item_list<work_item> list_;
  atomic<std::size_t> list_size_{0};  // of list_; changed under the lock
  fixed_memory<160> memory_;

  // For pump_crew.
  std::size_t number_ = 0;
  bool seeks_ = false;
  pump* next_idle_ = nullptr;
};

}  // namespace canigo::detail
