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

/// The tasks of a pool that do not run: queued, delayed until their time has come, or held back until there is room.
///
/// From the first flow on, the queued ones are in a fair_queue.
///
/// It sets their state, and ends no task. Threads: none; its owner holds a lock. Allocates: in the constructor, and for
/// flows.
class pool_backlog {
 public:
  pool_backlog(int priorities, std::size_t limit, overflow on_overflow);
  ~pool_backlog();

  std::size_t size() const noexcept { return queued() + delayed_.size() + held_.size(); }
  std::size_t queued() const noexcept;
  std::size_t queued(int priority) const noexcept;
  /// The task that has been queued for longest, or nullptr.
  pool_task* oldest() const noexcept;
  std::size_t delayed() const noexcept { return delayed_.size(); }
  std::size_t held() const noexcept { return held_.size(); }

  /// Whether there is room for one more task, by a first look.
  bool has_room() const noexcept { return queue_.size() + delayed_.size() < limit_at_first_look_; }
  /// Whether there is room for `t`, by a closer look. Tasks that free workers are about to take do not count, because
  /// the limit is on tasks that wait. A worker takes no task of a flow that is held.
  bool has_room(const pool_task& t, std::size_t free_workers, time_point now) const noexcept;
  /// Whether a newcomer is let in, and which task makes room for it: one of its flow if there is no room there.
  struct entry {
    bool is_let_in;
    pool_task* victim;
  };
  entry admit(pool_task& t, std::size_t free_workers, time_point now) noexcept;

  /// Adds a new task, which is queued from the start.
  void add(pool_task& t, time_point now) noexcept { queue_.push(t, now); }
  void queue(pool_task& t, time_point now) noexcept;
  void delay(pool_task& t, time_point now) noexcept;
  void hold(pool_task& t, time_point now) noexcept;

  /// Whether a worker that looks for a task finds one.
  bool has_ready() const noexcept { return !queue_.empty() || (flows_ != nullptr && has_ready_in_flows()); }
  /// Takes out the task that runs next, or returns nullptr. If there are flows, they choose it, at the time of
  /// `watcher`. After that, `watcher` looks again.
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
  /// The first of the tasks that are held back; the second function also takes it out. There must be one.
  pool_task& first_held(time_point now) noexcept { return static_cast<pool_task&>(*held_.front(now)); }
  pool_task& take_held(time_point now) noexcept;
  /// Takes a task out, wherever it is.
  void remove(pool_task& t) noexcept;
  /// Takes out a task that is held back, or any task; nullptr when none is left.
  pool_task* take_any_held() noexcept;
  pool_task* take_any() noexcept;

  bool has_flows() const noexcept { return flows_ != nullptr; }
  /// The queue of the flows, for pool_flows, or nullptr.
  fair_queue* flows() const noexcept { return flows_.get(); }
  /// From now on there are flows. A throw changes nothing.
  void begin_flows(time_point now);
  /// Calls `f` for each task that is delayed or held back; it may remove that one.
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
  std::unique_ptr<fair_queue> flows_;  // from then on queue_ is empty
  std::size_t limit_at_first_look_;    // 0 with flows: each newcomer is looked at closely
  const std::size_t limit_;
  const overflow on_overflow_;
};

}  // namespace canigo::detail
