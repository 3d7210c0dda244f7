#pragma once

#include "canigo/detail/pool/pool_task.hpp"
#include "canigo/detail/queue/wait_queue.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace canigo::detail {

class fair_queue;

/// The tasks of a pool that are not running: queued, delayed until an instant, or held back until the queue has room.
///
/// Once the pool has had a flow, all queued tasks are in a fair_queue.
///
/// This class sets the state of tasks, but never ends a task. Threads: not thread-safe; its owner must hold a lock.
/// Allocates: in the constructor, and for flows.
class pool_backlog {
 public:
  pool_backlog(int priorities, std::size_t limit, overflow on_overflow);
  ~pool_backlog();

  std::size_t size() const noexcept { return queued() + delayed_.size() + held_.size(); }
  std::size_t queued() const noexcept;
  std::size_t queued(int priority) const noexcept;
  /// The task that was queued first, or nullptr.
  pool_task* oldest() const noexcept;
  std::size_t delayed() const noexcept { return delayed_.size(); }
  std::size_t held() const noexcept { return held_.size(); }

  /// Whether there is certainly room for one more task. A fast check; if it returns false, has_room(t, ...) decides.
  bool has_room() const noexcept { return queue_.size() + delayed_.size() < limit_at_first_look_; }
  /// Whether there is room for `t`. Tasks that free workers are about to take do not count, because the limit is for
  /// waiting tasks. A task counts if the ceiling of its flow holds it back, because free workers can't take the task
  /// then.
  bool has_room(const pool_task& t, std::size_t free_workers, time_point now) const noexcept;
  /// Whether a new task is accepted, and which task must be evicted for it. If the flow of the new task has no room,
  /// the evicted task is one of that flow.
  struct entry {
    bool is_let_in;
    pool_task* victim;
  };
  entry admit(pool_task& t, std::size_t free_workers, time_point now) noexcept;

  /// Adds a new task, which is queued immediately.
  void add(pool_task& t, time_point now) noexcept { queue_.push(t, now); }
  void queue(pool_task& t, time_point now) noexcept;
  void delay(pool_task& t, time_point now) noexcept;
  void hold(pool_task& t, time_point now) noexcept;

  /// Whether take() would find a task.
  bool has_ready() const noexcept { return !queue_.empty() || (flows_ != nullptr && has_ready_in_flows()); }
  /// Removes the task that runs next and returns it, or nullptr. With flows, the fair_queue chooses the task at the
  /// time watcher.now(). If the fair_queue returns a task, watcher.look_again() is called, so that the flows are
  /// checked again.
  template <class Watcher>
  pool_task* take(Watcher& watcher) noexcept {
    if (wait_node* n = queue_.first_of_most_important()) [[likely]] {
      queue_.remove(*n);
      return &begun(static_cast<pool_task&>(*n));
    }
    pool_task* t = flows_ == nullptr ? nullptr : take_from_flows(watcher.now());
    if (t != nullptr) watcher.look_again();
    return t;
  }
  /// The first task that is held back; take_held() also removes it. Precondition: a task is held back.
  pool_task& first_held(time_point now) noexcept { return static_cast<pool_task&>(*held_.front(now)); }
  pool_task& take_held(time_point now) noexcept;
  /// Removes a task, whatever its state is.
  void remove(pool_task& t) noexcept;
  /// take_any_held() removes a task that is held back, take_any() any task. They return nullptr if there is none.
  pool_task* take_any_held() noexcept;
  pool_task* take_any() noexcept;

  bool has_flows() const noexcept { return flows_ != nullptr; }
  /// The fair_queue of the flows, which pool_flows uses; nullptr if the pool has no flows.
  fair_queue* flows() const noexcept { return flows_.get(); }
  /// Moves the queued tasks into a fair_queue, which flows need. If it throws, nothing has changed.
  void begin_flows(time_point now);
  /// Calls `f` for each task that is delayed or held back; `f` may remove that task.
  template <class Function>
  void for_each_before_queue(Function&& f) {
    const auto of_task = [&f](wait_node& n) { f(static_cast<pool_task&>(n)); };
    delayed_.for_each_heavier_than(0, of_task);
    held_.for_each_heavier_than(0, of_task);
  }

 private:
  static pool_task& begun(pool_task& t) noexcept {
    t.state_.store(task_state::running, std::memory_order_release);
    return t;
  }
  pool_task* take_from_flows(time_point now) noexcept;
  pool_task* victim(const pool_task& newcomer) const noexcept;
  void enter_flow(pool_task& t) noexcept;
  bool has_room_in_flow(const pool_task& t, std::size_t free_workers, time_point now) const noexcept;
  pool_task* victim_in_flow(const pool_task& t) const noexcept;
  bool is_of_flow(const pool_task& t) const noexcept;
  bool has_ready_in_flows() const noexcept;
  void queue_in_flows(pool_task& t, time_point now) noexcept;

  wait_queue queue_;
  wait_queue delayed_;
  wait_queue held_;
  std::unique_ptr<fair_queue> flows_;  // if not null, it has the queued tasks, and queue_ is empty
  // The bound of the fast check has_room(). It is 0 with flows, so that each new task gets the full check.
  std::size_t limit_at_first_look_;
  const std::size_t limit_;
  const overflow on_overflow_;
};

}  // namespace canigo::detail
