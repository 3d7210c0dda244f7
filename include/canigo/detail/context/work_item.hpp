#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <utility>

namespace canigo::detail {

/// Work that is ready and waits for a thread. A work item is in at most one list or ring at a time. So it contains its
/// own link, and a list needs no memory.
///
/// The code that takes a work item out of a queue must call either resume() or destroy(), exactly once.
class work_item {
 public:
  work_item() = default;
  work_item(const work_item&) = delete;
  work_item& operator=(const work_item&) = delete;

  /// Frees this object and does the work.
  virtual void resume() = 0;
  /// Frees this object without doing the work.
  virtual void destroy() noexcept = 0;

 protected:
  ~work_item() = default;

 private:
  template <class Item>
  friend class item_list;
  work_item* next_item_ = nullptr;
};

/// A FIFO list of work items. `Item` is work_item or derived from it.
template <class Item>
class item_list {
 public:
  item_list() = default;
  item_list(item_list&& other) noexcept
      : first_{std::exchange(other.first_, nullptr)}, last_{std::exchange(other.last_, nullptr)} {}
  item_list& operator=(item_list&&) = delete;

  bool empty() const noexcept { return first_ == nullptr; }
  Item* front() const noexcept { return static_cast<Item*>(first_); }
  void push(Item& item) noexcept {
    work_item& i = item;
    i.next_item_ = nullptr;
    (last_ != nullptr ? last_->next_item_ : first_) = &i;
    last_ = &i;
  }
  void append(item_list&& other) noexcept {
    if (other.empty()) return;
    (last_ != nullptr ? last_->next_item_ : first_) = std::exchange(other.first_, nullptr);
    last_ = std::exchange(other.last_, nullptr);
  }
  Item* pop() noexcept {
    work_item* const i = first_;
    if (i != nullptr && (first_ = i->next_item_) == nullptr) last_ = nullptr;
    return static_cast<Item*>(i);
  }

 private:
  work_item* first_ = nullptr;
  work_item* last_ = nullptr;
};

/// The max number of callers that one handler resumes. After that many callers, other handlers of the event loop can
/// run.
inline constexpr int resumptions_per_turn = 128;
/// The delay before a step that failed for lack of memory is tried again.
inline constexpr duration retry_after = std::chrono::milliseconds{1};

/// A suspended caller: its completion handler, and the way to resume it.
///
/// The code that ends the wait must call exactly one of resume(), post() and destroy(), once. resume() frees this
/// object and calls the handler; call it only on the handler's executor. destroy() gives back what was granted, and
/// frees this object and the handler without calling it.
class suspended : public work_item {
 public:
  /// Posts resume() to the handler's executor. If it throws, nothing was posted, and the caller is still suspended.
  virtual void post() = 0;
  /// Like post(), for a caller whose executor is not the executor of the object for which the caller waited.
  virtual void post_across() { post(); }

 protected:
  ~suspended() = default;
};

using suspended_list = item_list<suspended>;

}  // namespace canigo::detail
