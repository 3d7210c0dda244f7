#pragma once

#include "canigo/time.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo::detail {

/// The base class of a waiter. It links the waiter into a wait_queue, and is a part of the waiting operation.
///
/// It has constructors, so it is not an aggregate, and a derived class may use the padding after `linked_`.
class wait_node {
 public:
  wait_node() noexcept = default;
  wait_node(const wait_node&) = delete;
  wait_node& operator=(const wait_node&) = delete;

  bool linked() const noexcept { return linked_; }

  /// sequence() is the position of the waiter in the order of arrival in its queue; since() is the time of arrival.
  /// Both are valid only while the waiter is in a queue.
  std::uint64_t sequence() const noexcept { return sequence_; }
  time_point since() const noexcept { return since_; }
  /// The number of the waiter's flow in a fair_queue; 0 if the waiter has no flow.
  std::uint32_t flow() const noexcept { return flow_; }
  /// Whether this waiter goes before `other`, which must be of the same class. A repeated request has the position of
  /// its first arrival.
  bool arrived_before(const wait_node& other) const noexcept {
    return since_ != other.since_ ? since_ < other.since_ : sequence_ < other.sequence_;
  }

 private:
  friend class fair_queue;
  friend class wait_queue;

  wait_node* previous_ = nullptr;
  wait_node* next_ = nullptr;
  std::uint64_t sequence_ = 0;
  time_point since_{};

 public:
  /// The tokens that the waiter requests; `priority` is its class. Set both before push(), and do not change them while
  /// the waiter is in a queue.
  std::uint64_t tokens = 1;

 private:
  std::uint32_t flow_ = 0;

 public:
  std::uint16_t priority = 0;

 private:
  bool linked_ = false;
};

/// Waiters in order of class, and in order of arrival inside a class.
///
/// With ageing, a waiter counts as one class more important for every `ageing` that it has waited. front() is then the
/// waiter with the least (effective class, arrival). The effective class is computed when needed, so no action is
/// necessary when a waiter rises.
///
/// Threads: not thread-safe; its owner must hold a lock. Allocates: in the constructor, 48 bytes per class.
class wait_queue {
 public:
  static constexpr int max_priorities = 1024;

  /// `ageing`: duration::max() means that no waiter rises.
  ///
  /// Errors: errc::invalid_argument unless 1 <= priorities <= max_priorities and ageing >= 1ns.
  explicit wait_queue(int priorities, duration ageing = duration::max());

  wait_queue(const wait_queue&) = delete;
  wait_queue& operator=(const wait_queue&) = delete;

  /// Inserts a node into the class node.priority, behind the waiters of that class that arrived at `since` or earlier.
  /// By default the node becomes the last one of the class. O(1) if the node becomes the last one; otherwise O(waiters
  /// behind the node).
  void push(wait_node& node, time_point now, time_point since = time_point::max()) noexcept;

  /// Removes a linked node from any position. O(1).
  void remove(wait_node& node) noexcept;

  /// The waiter to grant next, or nullptr. O(1) without ageing; otherwise at most O(classes with waiters).
  wait_node* front(time_point now) noexcept {
    return size_ == 0 || ageing_ == duration::max() ? first_of_most_important() : front_by_age(now);
  }

  /// The class to which a linked node has risen by `now`. O(1).
  int effective_class(const wait_node& node, time_point now) const noexcept;

  /// The waiter that arrived first in the most important class, without regard to ageing; nullptr if there is none.
  /// O(1).
  wait_node* first_of_most_important() const noexcept { return size_ == 0 ? nullptr : at(waiting_.first()).head; }

  /// The next instant at which front() may change because a waiter rises; max: never. O(classes with waiters).
  time_point next_promotion(time_point now) const noexcept;

  /// The first `most` waiters, in the order in which they would be granted at `now`. Allocates.
  std::vector<const wait_node*> list(time_point now, std::size_t most) const;

  /// The waiter that arrived first of all, or nullptr. O(classes with waiters).
  wait_node* oldest() const noexcept;

  /// oldest() is the waiter of a class that arrived first, newest() the one that arrived last; nullptr if the class is
  /// empty. O(1).
  wait_node* oldest(int priority) const noexcept { return at(priority).head; }
  wait_node* newest(int priority) const noexcept { return at(priority).head != nullptr ? at(priority).tail : nullptr; }

  /// The waiter that arrived last in the least important class, without regard to ageing; nullptr if there is none.
  /// O(1).
  wait_node* youngest_of_least_important() const noexcept;
  /// youngest_of_least_important() if its class is less important than `priority`; otherwise nullptr.
  wait_node* displaced_by(int priority) const noexcept;

  /// Calls `f` for each waiter that requests more than `tokens`; `f` may remove that waiter. O(waiters).
  template <class Function>
  void for_each_heavier_than(std::uint64_t tokens, Function&& f) {
    if (size_ == 0) return;
    for (int index = waiting_.next(0); index >= 0; index = waiting_.next(static_cast<unsigned>(index) + 1)) {
      if (at(index).tokens <= tokens) continue;
      for (wait_node *n = at(index).head, *next = nullptr; n != nullptr; n = next) {
        next = n->next_;
        if (n->tokens > tokens) f(*n);
      }
    }
  }

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  std::size_t size(int priority) const noexcept { return at(priority).size; }
  int priorities() const noexcept { return static_cast<int>(classes_.size()); }
  duration ageing() const noexcept { return ageing_; }

  /// The sum of tokens that the waiters of a class request; saturates. O(1).
  std::uint64_t tokens(int priority) const noexcept;

  /// The sum of the tokens that all waiters of the classes 0 … `priority` request: these waiters go before a new
  /// request of the class `priority`. Saturates. O(classes with waiters).
  std::uint64_t tokens_ahead(int priority) const noexcept;

 private:
  friend class fair_queue;

  // The waiters of a class in a doubly linked list. The previous pointer of the head is never read. So a thread that
  // removes the head and a thread that appends use different nodes. If the head is null, the tail has no meaning.
  struct class_list {
    wait_node* head = nullptr;
    wait_node* tail = nullptr;
    std::size_t size = 0;
    uint128 tokens = 0;
  };

  // The set of classes with waiters: one bit for each class, and one bit for each word of these bits.
  class class_set {
   public:
    void insert(unsigned index) noexcept;
    void erase(unsigned index) noexcept;
    int first() const noexcept {  // the lowest class in the set, which must not be empty
      const auto word = static_cast<unsigned>(std::countr_zero(summary_));
      return static_cast<int>(word * 64 + static_cast<unsigned>(std::countr_zero(words_[word])));
    }
    int next(unsigned from) const noexcept;  // the first class >= from in the set, or -1
    int last() const noexcept;               // the highest class in the set, which must not be empty

   private:
    std::array<std::uint64_t, max_priorities / 64> words_{};
    std::uint64_t summary_ = 0;
  };

  const class_list& at(int priority) const noexcept { return classes_[static_cast<std::size_t>(priority)]; }
  wait_node* front_by_age(time_point now) noexcept;
  void put_back_in_line(wait_node& node, time_point since) noexcept;

  std::vector<class_list> classes_;
  class_set waiting_;
  duration ageing_;
  std::size_t size_ = 0;
  std::uint64_t next_sequence_ = 0;
  time_point latest_since_ = time_point::min();
  time_point earliest_since_ = time_point::min();  // lower bound of the arrival times of all waiters
};

}  // namespace canigo::detail
