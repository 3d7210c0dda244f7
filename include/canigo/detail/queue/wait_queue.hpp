#pragma once

#include "canigo/time.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo::detail {

/// A place in a wait_queue: the base of each waiter. It lives in the waiting operation.
///
/// Not an aggregate on purpose: a derived class may then use the bytes behind `linked_`.
class wait_node {
 public:
  wait_node() noexcept = default;
  wait_node(const wait_node&) = delete;
  wait_node& operator=(const wait_node&) = delete;

  bool linked() const noexcept { return linked_; }

  /// Its place in the order of arrival in its queue, and the time of its arrival. Valid while linked.
  std::uint64_t sequence() const noexcept { return sequence_; }
  time_point since() const noexcept { return since_; }
  /// The number of its flow in a fair_queue; 0 if it has none.
  std::uint32_t flow() const noexcept { return flow_; }
  /// Whether it stands before `other`, which is of the same class. A repeat stands where its first arrival puts it.
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
  /// How much it waits for, and its class. Set both before push; leave them alone while linked.
  std::uint64_t tokens = 1;

 private:
  std::uint32_t flow_ = 0;

 public:
  std::uint16_t priority = 0;

 private:
  bool linked_ = false;
};

/// Waiters by class, and by arrival inside a class.
///
/// With ageing, a waiter counts as one class more important for every `ageing` it has waited. front() is then
/// the waiter of the least (effective class, arrival). Classes are weighed when asked, so nothing has
/// to happen when a waiter rises.
///
/// Threads: none; its owner holds a lock. Allocates: in the constructor, 48 bytes per class.
class wait_queue {
 public:
  static constexpr int max_priorities = 1024;

  /// `ageing`: duration::max() means that no waiter rises.
  ///
  /// Errors: errc::invalid_argument unless 1 <= priorities <= max_priorities and ageing >= 1ns.
  explicit wait_queue(int priorities, duration ageing = duration::max());

  wait_queue(const wait_queue&) = delete;
  wait_queue& operator=(const wait_queue&) = delete;

  /// Puts a node into the class node.priority, behind those that arrived until `since`, or until now. O(1) if it is
  /// last; else O(those that arrived after it).
  void push(wait_node& node, time_point now, time_point since = time_point::max()) noexcept;

  /// Takes a linked node out, wherever it stands. O(1).
  void remove(wait_node& node) noexcept;

  /// The waiter that goes next, or nullptr. O(1) without ageing; else O(classes that have waiters), at most.
  wait_node* front(time_point now) noexcept {
    return size_ == 0 || ageing_ == duration::max() ? first_of_most_important() : front_by_age(now);
  }

  /// The class that a linked node has risen to by now. O(1).
  int effective_class(const wait_node& node, time_point now) const noexcept;

  /// The first arrival of the most important class, ageing aside, or nullptr. O(1).
  wait_node* first_of_most_important() const noexcept { return size_ == 0 ? nullptr : at(waiting_.first()).head; }

  /// When front() may be another waiter although none came or left; max: never. O(classes that have waiters).
  time_point next_promotion(time_point now) const noexcept;

  /// The first `most` in the order in which they would go at `now`, one after the other. Allocates.
  std::vector<const wait_node*> list(time_point now, std::size_t most) const;

  /// The first arrival of all classes, or nullptr. O(classes that have waiters).
  wait_node* oldest() const noexcept;

  /// The first and the last arrival of a class, or nullptr. O(1).
  wait_node* oldest(int priority) const noexcept { return at(priority).head; }
  wait_node* newest(int priority) const noexcept { return at(priority).head != nullptr ? at(priority).tail : nullptr; }

  /// The last arrival of the last class, by the class it arrived in, or nullptr. O(1).
  wait_node* youngest_of_least_important() const noexcept;
  /// youngest_of_least_important(), if that is less important than a newcomer of this class; otherwise nullptr.
  wait_node* displaced_by(int priority) const noexcept;

  /// Calls `f` for each waiter for more than `tokens`; `f` may remove that waiter. O(waiters).
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

  /// The tokens that a class waits for; saturating. O(1).
  std::uint64_t tokens(int priority) const noexcept;

  /// The tokens that go before a newcomer of this class: those of the classes 0 … priority; saturating.
  /// O(classes that have waiters).
  std::uint64_t tokens_ahead(int priority) const noexcept;

 private:
  friend class fair_queue;

  // The waiters of a class, linked both ways. The pointer before the head is never read. So a thread that takes the
  // head and one that appends touch different nodes. Without a head, the tail means nothing.
  struct class_list {
    wait_node* head = nullptr;
    wait_node* tail = nullptr;
    std::size_t size = 0;
    uint128 tokens = 0;
  };

  // Which classes have waiters: one bit each, and one bit for each word of those.
  class class_set {
   public:
    void insert(unsigned index) noexcept;
    void erase(unsigned index) noexcept;
    int first() const noexcept {  // the set must not be empty
      const auto word = static_cast<unsigned>(std::countr_zero(summary_));
      return static_cast<int>(word * 64 + static_cast<unsigned>(std::countr_zero(words_[word])));
    }
    int next(unsigned from) const noexcept;  // the first one >= from, or -1
    int last() const noexcept;               // the set must not be empty

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
  time_point earliest_since_ = time_point::min();  // no waiter arrived before this; may be out of date, never wrong
};

}  // namespace canigo::detail
