#pragma once

#include "canigo/detail/context/delivery.hpp"
#include "canigo/detail/context/engine_alarm.hpp"
#include "canigo/detail/pool/pool_backlog.hpp"
#include "canigo/detail/pool/pool_counts.hpp"
#include "canigo/detail/pool/pool_crew.hpp"
#include "canigo/detail/pool/pool_extras.hpp"
#include "canigo/detail/pool/pool_flows.hpp"
#include "canigo/detail/pool/pool_groups.hpp"
#include "canigo/detail/pool/pool_names.hpp"
#include "canigo/detail/pool/pool_options.hpp"
#include "canigo/detail/pool/pool_resources.hpp"
#include "canigo/detail/pool/pool_restarts.hpp"
#include "canigo/detail/pool/pool_stop.hpp"
#include "canigo/detail/pool/pool_task.hpp"
#include "canigo/detail/pool/pool_waiter.hpp"
#include "canigo/detail/pool/pool_waiter_list.hpp"
#include "canigo/detail/pool/self_wait.hpp"
#include "canigo/net.hpp"
#include "canigo/pool.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

namespace canigo::detail {

class pool_worker;

/// The engine of strand_pool and resource_pool: a queue of tasks, workers that take them, and the time.
///
/// One lock guards it; no foreign code runs under the lock. A worker gets its next task at the instant at which it
/// becomes free, and only one task at a time. So an important task never waits behind a task that a worker has taken in
/// advance. After the lock is released, the pool wakes workers, posts cancellations, destroys callables and resumes
/// callers; see `delivery`.
///
/// It lives as long as anything refers to it: its handle, its workers, handles of tasks, or deliveries under way.
class pool_core final : public delivery {
 public:
  /// Returns a new pool with one reference, which the caller must release. Throws errc::invalid_argument.
  static pool_core* open(const net::any_io_executor& executor, const pool_core_options& options,
                         std::unique_ptr<pool_resources> resources);

  /// Throws if an option of a task is invalid.
  void check(const task_options& o) const {
    check_task(o, options_.priorities);
    if (o.flow != nullptr) flows_.check(*o.flow);
  }
  /// Whether the instant `t` has come, or the execution context is gone. Reads the clock, so the answer is right even
  /// if no thread was free to run the deadline for `t`.
  bool has_come(time_point t) const noexcept;
  /// Submits a task, and takes over one reference to it. The options, if any, must have been checked. Returns false if
  /// the task was refused; then the caller keeps the reference. Throws std::bad_alloc.
  bool post(pool_task& t, const task_options* o);
  /// Stores the checked options in the task, and makes the task keep this pool alive, because the handle of the task
  /// may outlive the handle of the pool. Throws std::bad_alloc.
  void prepare_for_handle(pool_task& t, const task_options* o);
  /// Submits a task that prepare_for_handle() has prepared. If the pool refuses the task, the task ends with the error
  /// of the refusal.
  void submit(pool_task& t) noexcept;
  /// Like submit(), for a caller that waits for the end of the task.
  void run(pool_task& t, pool_waiter& w) noexcept;
  /// Ends a task that waits, or cancels the operation of a task that runs. Returns false if the task has already ended.
  bool cancel(pool_task& t) noexcept;

  std::size_t cancel_group(std::uint64_t group) noexcept;
  void wait_for(pool_task& t, pool_waiter& w) noexcept;
  void wait_group(std::uint64_t group, pool_waiter& w) noexcept;
  void wait_closed(pool_waiter& w) noexcept;
  void cancel_wait(pool_waiter& w) noexcept;
  /// Ends a wait with the error `code`. Call it if the wait could not begin, because there was no memory.
  void fail(pool_waiter& w, int code) noexcept;

  void resize(std::size_t concurrency);
  void request_stop(stop_mode mode, duration grace) noexcept;
  bool is_closed() const noexcept;
  stop_report report() const;
  pool_stats stats() const;
  pool_flows& flows() noexcept { return flows_; }

 private:
  friend class pool_flows;
  friend class pool_waiter;
  friend class pool_worker;
  friend class task_alarm;
  /// The next step of a worker's coroutine: leave the pool, care for its resource, run a task, or rest until it is
  /// woken.
  enum class step : std::uint8_t { leave, care, work, rest };

  pool_core(const net::any_io_executor& executor, const pool_core_options& options,
            std::unique_ptr<pool_resources> resources);
  ~pool_core() override;
  void let_go_of_context() noexcept override;
  void end_with_context() noexcept override;

  // These functions are called after the lock is released.
  void carry_out(bool drain_goes_on) noexcept override;
  void run_turn() override;
  void retry() noexcept override;
  void tell_ended(pool_task* ended) noexcept;

  // These functions accept tasks.
  void prepare(pool_task& t, const task_options* o) {
    if (!is_plain_ || o != nullptr) prepare_with(t, o != nullptr ? *o : no_options);
  }
  void prepare_with(pool_task& t, const task_options& o);
  int refusal(pool_task& t) noexcept;
  bool make_room(pool_task& t) noexcept;
  void refuse(pool_task& t, int code) noexcept;
  void accept(pool_task& t) noexcept;
  void accept_with_extras(pool_task& t) noexcept;
  void queue(pool_task& t, time_point not_before) noexcept;
  void admit_held() noexcept;

  // These functions end tasks.
  void end(pool_task& t, task_state s, int code, std::exception_ptr e = {}) noexcept;
  void end_waiting(pool_task& t, task_state s) noexcept;
  void deliver(pool_task& t) noexcept;
  bool cancel_locked(pool_task& t) noexcept;
  void time_is_up(pool_task& t, time_point now) noexcept;
  void tell_early(pool_task& t) noexcept;

  // These functions serve waiters.
  void ready(pool_waiter& w, int code) noexcept;
  void ready_all(pool_waiter_list& list) noexcept;
  void end_hopeless_wait() noexcept;

  // These functions find the next step of a worker.
  time_point fresh_now() noexcept;
  void wake_one() noexcept;
  void wake_all() noexcept;
  step next_step(pool_worker& w, pool_task*& t) noexcept;
  step next_step_with_resource(pool_worker& w, pool_task*& t) noexcept;
  pool_task* work_off(pool_worker& w, bool is_parked, pool_task* done = nullptr);
  pool_task* take_next(pool_worker& w, bool clock_is_right) noexcept;
  bool finish(pool_worker& w, pool_task& t) noexcept;

  // These functions handle workers that leave, break and restart.
  /// Whether a worker must leave the pool before it takes its next task. Inline, because each worker calls it before
  /// each operation.
  bool must_leave() const noexcept {
    return crew_.is_too_large() || (stop_.is_asked() && stop_.ends_workers(backlog_.size() + crew_.running()));
  }
  void gone(pool_worker& w) noexcept;
  bool is_short_of_workers() const noexcept;
  void replace_workers() noexcept;

  // These functions stop the pool.
  void apply_stop(stop_mode mode) noexcept;
  void check_stop() noexcept;
  bool has_closed() const noexcept;

  pool_backlog backlog_;
  const pool_core_options options_;
  const bool is_plain_;  // true: a task that has no options of its own needs no task_extras
  std::unique_ptr<pool_resources> resources_;

  // The following members store the work to do after the lock is released.
  pool_task* ended_ = nullptr;
  bool replaces_workers_ = false;  // whether lost workers must be replaced now

  pool_stop stop_;
  pool_crew crew_;
  self_wait self_waits_;
  std::size_t undelivered_ = 0;  // the number of ended tasks whose callers were not resumed yet
  pool_waiter_list closed_waiters_;
  std::uint64_t next_id_ = 0;
  std::uint64_t random_ = 0;
  time_point coarse_now_{};
  pool_counts counts_;
  pool_restarts restarts_;
  pool_groups groups_;
  pool_names names_;
  std::vector<std::unique_ptr<pool_worker>> workers_;

  engine_alarm grace_;
  pool_flows flows_;
};

}  // namespace canigo::detail
