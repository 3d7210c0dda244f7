#include "canigo/detail/pool/pool_backlog.hpp"

namespace canigo::detail {

pool_backlog::pool_backlog(int priorities, std::size_t limit, overflow on_overflow)
    : queue_{priorities}, delayed_{priorities}, held_{priorities}, limit_{limit}, on_overflow_{on_overflow} {}

bool pool_backlog::has_room(std::size_t free_workers) const noexcept {
  const std::size_t queued = queue_.size() + 1;
  return (queued > free_workers ? queued - free_workers : 0) + delayed_.size() <= limit_;
}

pool_task* pool_backlog::victim(int priority) const noexcept {
  wait_node* n = nullptr;
  if (on_overflow_ == overflow::evict_oldest) n = queue_.oldest();
  if (on_overflow_ == overflow::evict_least_important) {
    n = queue_.youngest_of_least_important();
    if (n != nullptr && n->priority <= priority) n = nullptr;
  }
  return static_cast<pool_task*>(n);
}

void pool_backlog::queue(pool_task& t, time_point now) noexcept {
  t.state_.store(task_state::queued, std::memory_order_release);
  queue_.push(t, now);
}

void pool_backlog::delay(pool_task& t, time_point now) noexcept {
  t.state_.store(task_state::delayed, std::memory_order_release);
  delayed_.push(t, now);
}

void pool_backlog::hold(pool_task& t, time_point now) noexcept {
  t.is_held_ = true;
  held_.push(t, now);
}

pool_task& pool_backlog::take_held(time_point now) noexcept {
  auto& t = static_cast<pool_task&>(*held_.front(now));
  remove(t);
  return t;
}

void pool_backlog::remove(pool_task& t) noexcept {
  if (t.is_held_) {
    t.is_held_ = false;
    held_.remove(t);
  } else if (t.state() == task_state::delayed) {
    delayed_.remove(t);
  } else {
    queue_.remove(t);
  }
}

pool_task* pool_backlog::take_any_held() noexcept {
  auto* t = static_cast<pool_task*>(held_.oldest());
  if (t != nullptr) remove(*t);
  return t;
}

pool_task* pool_backlog::take_any() noexcept {
  wait_node* n = queue_.oldest();
  if (n == nullptr) n = delayed_.oldest();
  if (n == nullptr) n = held_.oldest();
  auto* t = static_cast<pool_task*>(n);
  if (t != nullptr) remove(*t);
  return t;
}

}  // namespace canigo::detail
