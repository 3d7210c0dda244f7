#include "canigo/detail/stealing/pump.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace canigo::detail {

// Only the owner of the pump adds items to the list. If the owner reads a size of 0, the list is empty until the owner
// pushes an item.
void pump::push(work_item& item) noexcept {
  if (list_size() == 0 && ring_.push(item)) [[likely]]
    return;
  const std::lock_guard lock{mutex_};
  list_.push(item);
  list_size_.store(list_size() + 1, std::memory_order_release);
}

void pump::push_all(item_list<work_item>&& items, std::size_t n) noexcept {
  if (list_size() == 0) {
    for (; n > 0 && ring_.has_room(); --n) ring_.push(*items.pop());
  }
  if (n == 0) return;
  const std::lock_guard lock{mutex_};
  list_.append(std::move(items));
  list_size_.store(list_size() + n, std::memory_order_release);
}

/// Whether this work queue has work. The list is checked before the ring. Items move from the list to the ring, and the
/// list's size is lowered last, so items that are being moved are found.
bool pump::has_work() const noexcept { return list_size() > 0 || !ring_.empty(); }

work_item* pump::pop() noexcept {
  work_item* const item = ring_.pop();
  if (item != nullptr || list_size() == 0) return item;
  return take_from_list(*this, ring_length);
}

work_item* pump::steal_from(pump& victim) noexcept {
  work_item* const item = ring_.steal_from(victim.ring_);
  if (item != nullptr || victim.list_size() == 0) return item;
  return victim.take_from_list(*this, ring_length / 2);
}

/// Moves up to `most` items out of the list: returns the first item, and moves the others to the empty ring of `taker`.
/// If `taker` is another pump, it gets at most half of the list.
work_item* pump::take_from_list(pump& taker, std::size_t most) noexcept {
  const std::lock_guard lock{mutex_};
  const std::size_t size = list_size();
  const std::size_t n = std::min(&taker == this ? size : size - size / 2, most);
  work_item* const first = list_.pop();
  for (std::size_t i = 1; i < n; ++i) taker.ring_.push(*list_.pop());
  list_size_.store(size - n, std::memory_order_release);
  return first;
}

}  // namespace canigo::detail
