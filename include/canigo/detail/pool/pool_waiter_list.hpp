#pragma once

#include <utility>

namespace canigo::detail {

/// The base of a waiter, which links it into a list of waiters for the same event.
class pool_waiter_link {
 public:
  pool_waiter_link() noexcept = default;
  pool_waiter_link(const pool_waiter_link&) = delete;
  pool_waiter_link& operator=(const pool_waiter_link&) = delete;

 private:
  friend class pool_waiter_list;
  pool_waiter_link** place_ = nullptr;  // the list's pointer to this object; null if this object is in no list
  pool_waiter_link* next_ = nullptr;
};

/// A list of waiters for the same event. The latest one comes first.
class pool_waiter_list {
 public:
  pool_waiter_list() noexcept = default;
  pool_waiter_list(pool_waiter_list&& other) noexcept : first_{std::exchange(other.first_, nullptr)} {
    if (first_ != nullptr) first_->place_ = &first_;
  }
  pool_waiter_list& operator=(pool_waiter_list&&) = delete;

  bool empty() const noexcept { return first_ == nullptr; }
  pool_waiter_link* first() const noexcept { return first_; }
  void push(pool_waiter_link& l) noexcept {
    l.place_ = &first_;
    l.next_ = first_;
    if (first_ != nullptr) first_->place_ = &l.next_;
    first_ = &l;
  }
  /// Removes the link from its list, if it is in one.
  static void remove(pool_waiter_link& l) noexcept {
    if (l.place_ == nullptr) return;
    *l.place_ = l.next_;
    if (l.next_ != nullptr) l.next_->place_ = l.place_;
    l.place_ = nullptr;
  }

 private:
  pool_waiter_link* first_ = nullptr;
};

}  // namespace canigo::detail
