#include "canigo/detail/queue/wait_queue.hpp"

#include "canigo/detail/base/bits.hpp"
#include "canigo/detail/base/fetch.hpp"
#include "canigo/detail/queue/queue_arithmetic.hpp"
#include "canigo/error.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

namespace canigo::detail {
namespace {

std::size_t checked(int priorities, duration ageing) {
  if (priorities < 1 || priorities > wait_queue::max_priorities)
    throw_invalid("wait_queue.priorities", priorities, "1 to 1024");
  if (ageing < duration{1}) throw_invalid("wait_queue.ageing", ageing, "1ns or more");
  return static_cast<std::size_t>(priorities);
}

constexpr std::size_t mostly_all = 192;  // the bytes of a waiter to prefetch: most of its members

constexpr unsigned highest(std::uint64_t word) noexcept {
  return word_bits - 1 - static_cast<unsigned>(std::countl_zero(word));
}

}  // namespace

void wait_queue::class_set::insert(unsigned index) noexcept {
  words_[index / word_bits] |= bit(index);
  summary_ |= bit(index / word_bits);
}

void wait_queue::class_set::erase(unsigned index) noexcept {
  words_[index / word_bits] &= ~bit(index);
  if (words_[index / word_bits] == 0) summary_ &= ~bit(index / word_bits);
}

int wait_queue::class_set::next(unsigned from) const noexcept {
  unsigned word = from / word_bits;
  if (word >= words_.size()) return -1;
  std::uint64_t bits = words_[word] & ~(bit(from) - 1);
  if (bits == 0) {
    const std::uint64_t later = summary_ & ~(bit(word) - 1) & ~bit(word);
    if (later == 0) return -1;
    word = lowest(later);
    bits = words_[word];
  }
  return static_cast<int>(word * word_bits + lowest(bits));
}

int wait_queue::class_set::last() const noexcept {
  assert(summary_ != 0);
  const unsigned word = highest(summary_);
  return static_cast<int>(word * word_bits + highest(words_[word]));
}

wait_queue::wait_queue(int priorities, duration ageing) : classes_(checked(priorities, ageing)), ageing_(ageing) {}

void wait_queue::push(wait_node& node, time_point now, time_point since) noexcept {
  assert(!node.linked_ && node.priority < classes_.size());
  latest_since_ = std::max(latest_since_, now);
  if (size_ == 0) earliest_since_ = latest_since_;
  node.sequence_ = next_sequence_++;
  node.since_ = latest_since_;
  node.linked_ = true;
  class_list& list = classes_[node.priority];
  node.next_ = nullptr;
  if (list.head != nullptr) {
    node.previous_ = list.tail;
    list.tail->next_ = &node;
  } else {
    list.head = &node;
    waiting_.insert(node.priority);
  }
  list.tail = &node;
  ++list.size;
  list.tokens += node.tokens;
  ++size_;
  if (since < latest_since_) [[unlikely]]
    put_back_in_line(node, since);
}

/// Moves the last waiter of a class forward to the position that belongs to the time when it first arrived.
void wait_queue::put_back_in_line(wait_node& node, time_point since) noexcept {
  class_list& list = classes_[node.priority];
  node.since_ = since;
  earliest_since_ = std::min(earliest_since_, since);
  wait_node* after = &node;
  while (after != list.head && after->previous_->since_ > since) after = after->previous_;
  if (after == &node) return;
  list.tail = node.previous_;
  list.tail->next_ = nullptr;
  node.next_ = after;
  if (after == list.head) {
    list.head = &node;
  } else {
    node.previous_ = after->previous_;
    node.previous_->next_ = &node;
  }
  after->previous_ = &node;
}

void wait_queue::remove(wait_node& node) noexcept {
  assert(node.linked_);
  class_list& list = classes_[node.priority];
  wait_node* next = node.next_;
  if (list.head == &node) {
    list.head = next;
    if (next == nullptr) {
      waiting_.erase(node.priority);
    } else {
      fetch(next, mostly_all);  // prefetches the next waiter, because it is the next one to be granted
    }
  } else {
    node.previous_->next_ = next;
    (next != nullptr ? next->previous_ : list.tail) = node.previous_;
  }
  --list.size;
  list.tokens -= node.tokens;
  --size_;
  node.linked_ = false;
}

// Examines only the head (the first waiter) of each class: by a promotion, only a head can become the first waiter of
// the whole queue.
time_point wait_queue::next_promotion(time_point now) const noexcept {
  time_point next = time_point::max();
  if (size_ == 0 || ageing_ == duration::max()) return next;
  for (int index = waiting_.next(0); index >= 0; index = waiting_.next(static_cast<unsigned>(index) + 1)) {
    const wait_node& head = *at(index).head;
    if (effective_class(head, now) == 0) continue;
    const std::uint64_t into_step = span(head.since_, now) % static_cast<std::uint64_t>(ageing_.count());
    next = std::min(next, saturating_add(now, ageing_ - duration{static_cast<std::int64_t>(into_step)}));
  }
  return next;
}

// Compares only the heads of the classes, because the head has waited longest in its class. `best` is the best head so
// far. A head of class c goes before `best` only if it has waited long enough to be promoted to the class of `best`.
// That check takes one comparison, which is false in most cases.
wait_node* wait_queue::front_by_age(time_point now) noexcept {
  const auto step = static_cast<std::uint64_t>(ageing_.count());
  const std::uint64_t longest_wait = span(earliest_since_, now);
  int index = waiting_.first();
  wait_node* best = at(index).head;
  int best_class = effective_class(*best, now);
  time_point earliest = best->since_;
  while ((index = waiting_.next(static_cast<unsigned>(index) + 1)) >= 0) {
    const uint128 needed = uint128{static_cast<unsigned>(index - best_class)} * step;
    // No waiter has waited as long as `needed`, and the heads of later classes need an even longer wait. So no other
    // head can go before `best`.
    if (needed > longest_wait) return best;
    wait_node* head = at(index).head;
    earliest = std::min(earliest, head->since_);
    if (needed > span(head->since_, now)) continue;
    const int head_class = effective_class(*head, now);
    if (head_class == best_class && best->arrived_before(*head)) continue;
    best = head;
    best_class = head_class;
  }
  earliest_since_ = earliest;
  return best;
}

int wait_queue::effective_class(const wait_node& node, time_point now) const noexcept {
  const std::uint64_t steps = span(node.since_, now) / static_cast<std::uint64_t>(ageing_.count());
  return node.priority - static_cast<int>(std::min<std::uint64_t>(steps, node.priority));
}

std::vector<const wait_node*> wait_queue::list(time_point now, std::size_t most) const {
  std::vector<const wait_node*> result;
  std::vector<const wait_node*> heads;
  if (size_ == 0) return result;
  for (int index = waiting_.next(0); index >= 0; index = waiting_.next(static_cast<unsigned>(index) + 1))
    heads.push_back(at(index).head);
  while (result.size() < most && !heads.empty()) {
    const auto first = std::ranges::min_element(heads, [&](const wait_node* a, const wait_node* b) {
      const int class_a = effective_class(*a, now), class_b = effective_class(*b, now);
      return class_a != class_b ? class_a < class_b : a->arrived_before(*b);
    });
    result.push_back(*first);
    *first = (*first)->next_;
    if (*first == nullptr) heads.erase(first);
  }
  return result;
}

wait_node* wait_queue::oldest() const noexcept {
  wait_node* found = nullptr;
  for (int index = waiting_.next(0); index >= 0; index = waiting_.next(static_cast<unsigned>(index) + 1))
    if (wait_node* head = at(index).head; !found || head->arrived_before(*found)) found = head;
  return found;
}

wait_node* wait_queue::youngest_of_least_important() const noexcept {
  return size_ == 0 ? nullptr : at(waiting_.last()).tail;
}

wait_node* wait_queue::displaced_by(int priority) const noexcept {
  wait_node* const least = youngest_of_least_important();
  return least == nullptr || least->priority <= priority ? nullptr : least;
}

std::uint64_t wait_queue::tokens(int priority) const noexcept { return saturated(at(priority).tokens); }

std::uint64_t wait_queue::tokens_ahead(int priority) const noexcept {
  uint128 sum = 0;
  for (int index = waiting_.next(0); index >= 0 && index <= priority;
       index = waiting_.next(static_cast<unsigned>(index) + 1))
    sum += at(index).tokens;
  return saturated(sum);
}

}  // namespace canigo::detail
