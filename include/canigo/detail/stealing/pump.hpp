#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/post.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/stealing/lengths.hpp"
#include "canigo/detail/stealing/steal_ring.hpp"

#include <cstddef>

namespace canigo::detail {

/// A work queue with one owner at a time: the thread that runs the pump. Other pumps steal items from it.
///
/// Items that do not fit into the ring wait in a list, under a lock that is free unless another pump steals from the
/// list. The ring has the older items, so items leave in the order in which they were pushed.
class pump {
 public:
  /// Appends an item. Only the owner, the thread that runs the pump, may call it.
  void push(work_item& item) noexcept;
  /// Appends all of `items`. `n` is their number. Only the owner, the thread that runs the pump, may call it.
  void push_all(item_list<work_item>&& items, std::size_t n) noexcept;
  /// Removes the oldest item and returns it. Returns nullptr if the pump is empty. Only the owner, the thread that runs
  /// the pump, may call it.
  work_item* pop() noexcept;
  /// Steals a part of the items of `victim`. Returns the oldest of them, and stores the others in this pump. Returns
  /// nullptr if `victim` has none. Only the thread that runs this pump may call it, and only while this pump has no
  /// work.
  work_item* steal_from(pump& victim) noexcept;

  /// Whether the pump has an item. The result is certainly true if an item was pushed before the call, and no pump
  /// takes this item during the call. Any thread may call it.
  bool has_work() const noexcept;

  /// Memory for the posted operation in which the loop runs this pump. The memory is in use while this operation is
  /// posted.
  fixed_memory<160>& memory() noexcept { return memory_; }

 private:
  friend class pump_crew;

  work_item* take_from_list(pump& taker, std::size_t most) noexcept;
  std::size_t list_size() const noexcept { return list_size_.load(std::memory_order_acquire); }

  steal_ring ring_;
  mutex mutex_;
  item_list<work_item> list_;
  atomic<std::size_t> list_size_{0};  // size of list_; changed under the lock
  fixed_memory<160> memory_;

  // Only pump_crew uses the members below.
  std::size_t number_ = 0;
  bool seeks_ = false;
  pump* next_idle_ = nullptr;
};

}  // namespace canigo::detail
