#pragma once

#include <utility>

namespace canigo::http::detail {

/// The base class of members of a linked_list with the same tag. A class with several such bases can be in several
/// lists.
template <class T, class Tag>
class list_node {
 public:
  list_node() = default;
  list_node(const list_node&) = delete;
  list_node& operator=(const list_node&) = delete;

 private:
  template <class, class>
  friend class linked_list;
  T* previous_ = nullptr;
  T* next_ = nullptr;
  bool linked_ = false;
};

/// An intrusive FIFO list, from which any member can be removed. It neither allocates nor owns its members.
template <class T, class Tag>
class linked_list {
 public:
  linked_list() = default;
  linked_list(linked_list&& other) noexcept
      : first_{std::exchange(other.first_, nullptr)}, last_{std::exchange(other.last_, nullptr)} {}
  linked_list& operator=(linked_list&&) = delete;

  bool empty() const noexcept { return first_ == nullptr; }
  T* first() const noexcept { return first_; }
  static T* after(const T& t) noexcept { return node(t).next_; }
  static bool contains(const T& t) noexcept { return node(t).linked_; }

  /// Appends `t`, unless `t` is already in the list.
  void push(T& t) noexcept {
    auto& n = node(t);
    if (n.linked_) return;
    n.previous_ = last_;
    n.next_ = nullptr;
    n.linked_ = true;
    (last_ != nullptr ? node(*last_).next_ : first_) = &t;
    last_ = &t;
  }

  /// Removes `t` if it is in the list.
  void remove(T& t) noexcept {
    auto& n = node(t);
    if (!n.linked_) return;
    (n.previous_ != nullptr ? node(*n.previous_).next_ : first_) = n.next_;
    (n.next_ != nullptr ? node(*n.next_).previous_ : last_) = n.previous_;
    n.linked_ = false;
  }

  T* pop() noexcept {
    T* t = first_;
    if (t != nullptr) remove(*t);
    return t;
  }

  void clear() noexcept {
    while (pop() != nullptr) {
    }
  }

 private:
  static list_node<T, Tag>& node(T& t) noexcept { return t; }
  static const list_node<T, Tag>& node(const T& t) noexcept { return t; }

  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace canigo::http::detail
