#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/queue/wait_queue.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// A value on its way through a channel. As a node of a wait_queue it has its class in `priority`, and its bytes in
/// `tokens`. The channel moves nodes; only code outside of its lock touches the values in them.
class channel_node : public wait_node {
 public:
  virtual ~channel_node() = default;
  /// The send begins: takes a borrowed value from its place.
  virtual void fetch() noexcept = 0;
  /// It was not sent: a borrowed value goes back to its place.
  virtual void restore() noexcept = 0;

 private:
  friend class channel_nodes;
  friend class node_list;
  channel_node* next_ = nullptr;
};

/// A node that some code has for itself.
using owned_node = std::unique_ptr<channel_node>;

/// Nodes that are to be destroyed when no lock is held.
class node_list {
 public:
  node_list() = default;
  node_list(const node_list&) = delete;
  node_list& operator=(const node_list&) = delete;
  ~node_list() {
    while (first_ != nullptr) delete std::exchange(first_, first_->next_);
  }
  void push(channel_node& n) noexcept { n.next_ = std::exchange(first_, &n); }

 private:
  channel_node* first_ = nullptr;
};

/// The nodes of a channel that hold no value, to be used again. So a channel allocates only while it grows fuller than
/// it ever was.
class channel_nodes {
 public:
  channel_nodes() = default;
  channel_nodes(const channel_nodes&) = delete;
  channel_nodes& operator=(const channel_nodes&) = delete;
  ~channel_nodes();

  /// A node that was given back; nullptr: there is none.
  owned_node take() noexcept;
  void give_back(owned_node n) noexcept;

 private:
  mutex mutex_;
  channel_node* first_ = nullptr;
};

/// A node with room for a T.
template <class T>
class value_node final : public channel_node {
 public:
  value_node() noexcept {}
  ~value_node() override {
    if (has_value_) value().~T();
  }

  void put(T&& value) noexcept {
    ::new (static_cast<void*>(storage_)) T(std::move(value));
    has_value_ = true;
  }
  /// For a value that stays at its place until fetch(), and comes back if it is not sent.
  void borrow(T& value) noexcept { from_ = std::addressof(value); }
  void fetch() noexcept override {
    if (from_ != nullptr) put(std::move(*from_));
  }
  void restore() noexcept override {
    if (T* const to = std::exchange(from_, nullptr)) {
      if constexpr (std::is_nothrow_move_assignable_v<T>) {
        *to = std::move(value());
      } else {
        std::destroy_at(to);
        std::construct_at(to, std::move(value()));
      }
      clear();
    }
  }
  T& value() noexcept { return *std::launder(reinterpret_cast<T*>(storage_)); }
  void clear() noexcept {
    value().~T();
    has_value_ = false;
    from_ = nullptr;
  }

 private:
  alignas(T) std::byte storage_[sizeof(T)];
  T* from_ = nullptr;
  bool has_value_ = false;
};

}  // namespace canigo::detail
