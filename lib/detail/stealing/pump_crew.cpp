#include "canigo/detail/stealing/pump_crew.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>

namespace canigo::detail {

pump_crew::pump_crew() {
  pumps_[0] = std::make_unique<pump>();
  idle_ = pumps_[0].get();
  made_.store(1, std::memory_order_relaxed);
}

void pump_crew::push(pump* here, work_item& item, bool is_continuation) noexcept {
  if (here != nullptr) {
    here->push(item);
    if (is_continuation) return;
  } else {
    const std::lock_guard lock{injection_mutex_};
    injected_.push(item);
    injected_size_.store(injected() + 1, std::memory_order_release);
  }
  call_help();
}

/// Wakes another pump (a work queue that a posted function serves) if no pump is seeking work. The fence pairs with the
/// fence in retire(): either this thread sees that no pump is seeking, or the pump that stops seeking sees the new
/// work.
void pump_crew::call_help() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (seekers_.load(std::memory_order_relaxed) == 0) wake_one();
}

/// Wakes an idle pump (a work queue that a posted function serves), or starts a new one, unless a pump is seeking work
/// already. If there is neither an idle pump nor memory for a new one, it does nothing: the working pumps do all the
/// work.
void pump_crew::wake_one() noexcept {
  int none = 0;
  if (!seekers_.compare_exchange_strong(none, 1, std::memory_order_seq_cst)) return;
  pump* const p = idle_or_new();
  if (p == nullptr) {
    seekers_.fetch_sub(1, std::memory_order_seq_cst);
    return;
  }
  p->seeks_ = true;
  bring(*p);
}

pump* pump_crew::idle_or_new() noexcept {
  const std::lock_guard lock{mutex_};
  if (idle_ != nullptr) return std::exchange(idle_, idle_->next_idle_);
  const std::size_t made = made_.load(std::memory_order_relaxed);
  if (made == most_pumps) return nullptr;
  pumps_[made].reset(new (std::nothrow) pump);
  if (pumps_[made] == nullptr) return nullptr;
  pumps_[made]->number_ = made;
  made_.store(made + 1, std::memory_order_release);
  return pumps_[made].get();
}

void pump_crew::turn(pump& p) {
  if (!begin(p)) return;
  struct end {
    pump_crew& crew;
    pump* of;
    ~end() {
      if (of != nullptr) crew.put_back(*of);
    }
  };
  end at_the_end_or_a_throw{*this, &p};
  if (!p.seeks_) take_share(p);
  for (int done = 0; done < turn_length; ++done) {
    work_item* item = p.pop();
    if (item == nullptr) item = find(p);
    if (item == nullptr) {
      at_the_end_or_a_throw.of = nullptr;
      return retire(p);
    }
    if (done == 0 && p.has_work()) call_help();
    item->resume();
    if (done % stop_looks_apart == stop_looks_apart - 1 && is_loop_stopped()) return;
  }
}

/// Begins a turn, in which this thread runs the pump (work queue) `p`. If `p` seeks work, and at least as many pumps as
/// threads are working already, makes `p` idle and returns false. Otherwise returns true.
bool pump_crew::begin(pump& p) noexcept {
  const std::lock_guard lock{mutex_};
  ++running_;
  if (running_ > threads_.load(std::memory_order_relaxed)) threads_.store(running_, std::memory_order_relaxed);
  if (!p.seeks_) return true;
  if (working_ < threads_.load(std::memory_order_relaxed)) {
    ++working_;
    return true;
  }
  // At least as many pumps are working as there are threads. This thread runs `p`, which is not a working pump. So at
  // least one working pump has no thread now. Later a thread runs that pump, and wakes another pump if there is more
  // work. So `p` is not needed, and becomes idle.
  --running_;
  p.seeks_ = false;
  p.next_idle_ = std::exchange(idle_, &p);
  seekers_.fetch_sub(1, std::memory_order_seq_cst);
  return false;
}

void pump_crew::put_back(pump& p) noexcept {
  {
    const std::lock_guard lock{mutex_};
    --running_;
  }
  bring(p);
}

/// Moves work from the common list, which other threads have filled, to the end of the work of `p`. If the loop has a
/// single thread, that thread takes the whole list, which keeps the order. If the loop has several threads, each call
/// takes only a part of the list.
///
/// The size of the list is reduced last. So has_work(), which checks the list before the pumps, finds work that is
/// being moved.
void pump_crew::take_share(pump& p) noexcept {
  if (injected() == 0) return;
  const std::lock_guard lock{injection_mutex_};
  const std::size_t size = injected();
  const auto threads = static_cast<std::size_t>(threads_.load(std::memory_order_relaxed));
  if (threads == 1) {
    p.push_all(std::move(injected_), size);
    injected_size_.store(0, std::memory_order_release);
    return;
  }
  const std::size_t n = std::min((size + threads - 1) / threads, ring_length / 2);
  for (std::size_t i = 0; i < n; ++i) p.push(*injected_.pop());
  injected_size_.store(size - n, std::memory_order_release);
}

/// Returns work for a pump whose own queue is empty; null if there is no work. With a single thread, only the common
/// list is checked, because no other pump can have work.
work_item* pump_crew::find(pump& p) noexcept {
  if (!p.seeks_) {
    take_share(p);
    if (work_item* const item = p.pop()) {
      if (p.has_work()) call_help();
      return item;
    }
    if (threads_.load(std::memory_order_relaxed) == 1) return nullptr;
    p.seeks_ = true;
    seekers_.fetch_add(1, std::memory_order_seq_cst);
  }
  work_item* const item = seek(p);
  if (item == nullptr) return nullptr;
  p.seeks_ = false;
  if (seekers_.fetch_sub(1, std::memory_order_seq_cst) == 1 && has_work()) call_help();
  return item;
}

/// Takes work for the pump (work queue) `p` from the common list, or steals it from another pump. The search for
/// another pump begins at the pump with the next number after `p`, so that several pumps do not all steal from the same
/// pump. Returns null if there is no work.
work_item* pump_crew::seek(pump& p) noexcept {
  take_share(p);
  if (work_item* const item = p.pop()) return item;
  const std::size_t made = made_.load(std::memory_order_acquire);
  for (std::size_t i = 1; i < made; ++i) {
    if (work_item* const item = p.steal_from(*pumps_[(p.number_ + i) % made])) return item;
  }
  return nullptr;
}

/// Makes the pump (work queue) `p` idle: no thread runs it until there is more work. Another thread may already run it
/// before this function returns.
void pump_crew::retire(pump& p) noexcept {
  {
    const std::lock_guard lock{mutex_};
    --working_;
    --running_;
    if (std::exchange(p.seeks_, false)) seekers_.fetch_sub(1, std::memory_order_seq_cst);
    p.next_idle_ = std::exchange(idle_, &p);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (has_work()) call_help();
}

/// Whether there is work in the common list, or in a pump. The list is checked first. While work moves from the list to
/// a pump, the work counts in both for a moment. So this function finds work that is being moved.
bool pump_crew::has_work() const noexcept {
  if (injected() > 0) return true;
  const std::size_t made = made_.load(std::memory_order_acquire);
  return std::any_of(pumps_.begin(), pumps_.begin() + static_cast<std::ptrdiff_t>(made),
                     [](const auto& p) { return p->has_work(); });
}

item_list<work_item> pump_crew::take_all() noexcept {
  item_list<work_item> all;
  for (std::size_t i = 0; i < made_.load(std::memory_order_relaxed); ++i) {
    while (work_item* const item = pumps_[i]->pop()) all.push(*item);
  }
  all.append(std::move(injected_));
  injected_size_.store(0, std::memory_order_relaxed);
  return all;
}

}  // namespace canigo::detail
