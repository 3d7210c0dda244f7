#pragma once

#include "canigo/detail/pool/pool_task.hpp"
#include "canigo/detail/queue/wait_queue.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <cstddef>

namespace canigo::detail {

/// The tasks of a pool that do not run: queued, delayed until their time has come, or held back until there is room.
///
/// It sets their state, and ends nobody. Threads: none; its owner holds a lock.
class pool_backlog {
 public:
  pool_backlog(int priorities, std::size_t limit, overflow on_overflow);

  std::size_t size() const noexcept { return queue_.size() + delayed_.size() + held_.size(); }
  const wait_queue& queued() const noexcept { return queue_; }
  std::size_t delayed() const noexcept { return delayed_.size(); }
  std::size_t held() const noexcept { return held_.size(); }

  /// Whether there is room for one more, by a first look.
  bool has_room() const noexcept { return queue_.size() + delayed_.size() < limit_; }
  /// By a closer one: what free workers are about to take does not count, as the limit is on what has to wait.
  bool has_room(std::size_t free_workers) const noexcept;
  /// Who is to make room for a newcomer of this class; nullptr if nobody does.
  pool_task* victim(int priority) const noexcept;

  /// Adds one that is new, and so is queued from the start.
  void add(pool_task& t, time_point now) noexcept { queue_.push(t, now); }
  void queue(pool_task& t, time_point now) noexcept;
  void delay(pool_task& t, time_point now) noexcept;
  void hold(pool_task& t, time_point now) noexcept;

  /// Who is to run next, or nullptr.
  pool_task* first(time_point now) noexcept {
    wait_node* n = queue_.front(now);
    return n == nullptr ? nullptr : static_cast<pool_task*>(n);
  }
  /// Takes that one out to run.
  void begin(pool_task& t) noexcept {
    queue_.remove(t);
    t.state_.store(task_state::running, std::memory_order_release);
  }
  /// Takes out who is first of those held back; there is one.
  pool_task& take_held(time_point now) noexcept;
  /// Takes one out, wherever it is.
  void remove(pool_task& t) noexcept;
  /// Takes one out of those held back, or of all; nullptr when there is none left.
  pool_task* take_any_held() noexcept;
  pool_task* take_any() noexcept;

 private:
  wait_queue queue_;
  wait_queue delayed_;
  wait_queue held_;
  const std::size_t limit_;
  const overflow on_overflow_;
};

}  // namespace canigo::detail
