#pragma once

#include "canigo/detail/context/delivery.hpp"
#include "canigo/detail/context/engine_alarm.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/detail/pool/pool_backlog.hpp"
#include "canigo/detail/pool/pool_counts.hpp"
#include "canigo/detail/pool/pool_crew.hpp"
#include "canigo/detail/pool/pool_extras.hpp"
#include "canigo/detail/pool/pool_groups.hpp"
#include "canigo/detail/pool/pool_names.hpp"
#include "canigo/detail/pool/pool_resources.hpp"
#include "canigo/detail/pool/pool_restarts.hpp"
#include "canigo/detail/pool/pool_task.hpp"
#include "canigo/detail/pool/pool_waiter.hpp"
#include "canigo/detail/pool/pool_waiter_list.hpp"
#include "canigo/detail/pool/pool_worker.hpp"
#include "canigo/detail/pool/self_wait.hpp"
#include "canigo/detail/pool/task_life.hpp"
#include "canigo/net.hpp"
#include "canigo/pool_observer.hpp"
#include "canigo/pool_stats.hpp"
#include "canigo/request.hpp"
#include "canigo/restart_policy.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/stop_mode.hpp"
#include "canigo/task_options.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::detail {

/// The options of a task that comes without. A constant, so that a look at them costs nothing.
inline constexpr task_options no_options{};

/// Whether the task needs no task_extras for its own sake.
constexpr bool is_plain(const task_options& o) noexcept {
  return !o.timeout && o.delay == duration::zero() && o.group == 0 && o.name.empty() && o.retry.attempts <= 1 &&
         o.deadline == time_point::max();
}

struct pool_core_options {
  std::size_t concurrency = 1;
  int priorities = 1;
  std::size_t queue_limit = 10'000;
  overflow on_overflow = overflow::reject_new;
  duration timeout = duration::max();
  retry_policy retry = {};
  restart_policy restart = {};
  pool_observer* observer = nullptr;
  std::string_view type = "strand_pool";  ///< what it is called where an option is refused
};

/// Throws errc::invalid_argument for a mode that is none.
void check_stop(stop_mode mode);

/// The engine of strand_pool and resource_pool: a queue of tasks, workers that take them, and the time.
///
/// One lock guards it and is never held while foreign code runs. A worker gets its next task at the instant that it is
/// free, one task at a time. So an important task never stands behind one that was taken earlier. After the lock, the
/// pool wakes workers, posts cancellations, destroys callables and tells callers what was decided; see `delivery`.
///
/// It lives as long as anything refers to it: its handle, its workers, handles of tasks, deliveries under way.
class pool_core final : public delivery {
 public:
  /// The handle's reference is the caller's to release with close(). Throws errc::invalid_argument.
  static pool_core* open(const net::any_io_executor& executor, const pool_core_options& options,
                         std::unique_ptr<pool_resources> resources);
  /// Cancels all and gives up the handle's reference.
  void close() noexcept;

  /// Throws for what can't be.
  void check(const task_options& o) const {
    if (o.priority != 0 || !is_plain(o)) check_with(o);
  }
  /// Notes what is asked for, once it is checked. Throws for want of memory.
  void prepare(pool_task& t, const task_options& o) {
    if (!is_plain_ || o.priority != 0 || !is_plain(o)) prepare_with(t, o);
  }
  /// The same, and lets the task keep this alive, as its handle may outlive the pool's.
  void prepare_for_handle(pool_task& t, const task_options& o);
  /// Takes a prepared task, with one reference; false: it was refused, and the reference is still the caller's.
  bool post(pool_task& t) noexcept;
  /// Takes a prepared task; where it is refused, that is how it ends.
  void submit(pool_task& t) noexcept;
  /// The same for a caller that waits for the end.
  void run(pool_task& t, pool_waiter& w) noexcept;
  /// Ends the task, or asks its operation to; false if it has ended.
  bool cancel(pool_task& t) noexcept;

  std::size_t cancel_group(std::uint64_t group) noexcept;
  void wait_for(pool_task& t, pool_waiter& w) noexcept;
  void wait_group(std::uint64_t group, pool_waiter& w) noexcept;
  void wait_closed(pool_waiter& w) noexcept;
  void cancel_wait(pool_waiter& w) noexcept;
  /// Ends a wait that could not be set up.
  void fail(pool_waiter& w, int code) noexcept;

  void resize(std::size_t concurrency);
  void request_stop(stop_mode mode, duration grace) noexcept;
  bool is_closed() const noexcept;
  stop_report report() const;
  pool_stats stats() const;

 private:
  friend class pool_waiter;
  friend class pool_worker;
  friend class task_alarm;
  /// Owned by the frame of a worker's coroutine: notes when that has gone.
  class life {
   public:
    life(pool_core& c, pool_worker& w) noexcept : core_{&c}, worker_{&w} {}
    life(life&& other) noexcept : core_{std::exchange(other.core_, nullptr)}, worker_{other.worker_} {}
    life& operator=(life&&) = delete;
    ~life() {
      if (core_ != nullptr) core_->gone(*worker_);
    }
    pool_worker& worker() const noexcept { return *worker_; }

   private:
    pool_core* core_;
    pool_worker* worker_;
  };

  /// Keeps the loop running while a worker that leaves gives up its resource: gone() no longer sees to it.
  class leaver {
   public:
    explicit leaver(pool_core& c) noexcept;
    leaver(const leaver&) = delete;
    leaver& operator=(const leaver&) = delete;
    ~leaver();

   private:
    pool_core& core_;
  };

  pool_core(const net::any_io_executor& executor, const pool_core_options& options,
            std::unique_ptr<pool_resources> resources);
  ~pool_core();
  void let_go_of_context() noexcept override;
  void end_with_context() noexcept override;

  // After the lock.
  void carry_out(bool drain_goes_on) noexcept override;
  void run_turn() override;
  void retry() noexcept override;
  void tell_ended(pool_task* ended) noexcept;

  // Tasks.
  void prepare_with(pool_task& t, const task_options& o);
  void check_with(const task_options& o) const;
  bool make_room(int priority) noexcept;
  int refusal(const pool_task& t) noexcept;
  void accept(pool_task& t) noexcept;
  void accept_with_extras(pool_task& t) noexcept;
  void refuse(pool_task& t, int code) noexcept;
  void queue(pool_task& t) noexcept;
  void delay(pool_task& t) noexcept;
  void delay_until(pool_task& t, time_point now, time_point at) noexcept;
  void admit_held() noexcept;
  void end(pool_task& t, task_state s, int code, std::exception_ptr e) noexcept;
  void note_end(pool_task& t, task_state s, int code, std::exception_ptr e) noexcept;
  void deliver(pool_task& t) noexcept;
  bool cancel_locked(pool_task& t) noexcept;
  void end_waiting(pool_task& t, task_state s) noexcept;
  void end_stopped(pool_task& t) noexcept;
  task_event event_of(const pool_task& t) const noexcept;

  // Time.
  time_point fresh_now() noexcept;
  void time_is_up(pool_task& t, time_point now) noexcept;
  void tell_early(pool_task& t) noexcept;
  void grace_is_over() noexcept;

  // Waiters.
  void attach(pool_waiter& w, pool_waiter_list& list) noexcept;
  void ready(pool_waiter& w, int code) noexcept;
  void ready_all(pool_waiter_list& list) noexcept;
  void end_hopeless_wait() noexcept;

  // Workers.
  void spawn(pool_worker& w);
  void wake_one() noexcept;
  void wake_all() noexcept;
  void wake(pool_worker& w) noexcept;
  void end_rest(pool_worker& w) noexcept;
  void to_idle(pool_worker& w) noexcept;
  bool is_drained() const noexcept { return backlog_.size() == 0 && crew_.running() == 0; }
  /// Whether a worker that looks for work is to leave. Inline, as each looks before each operation.
  bool must_leave() const noexcept {
    return crew_.is_too_large() || mode_ >= stop_mode::finish_running || (mode_ == stop_mode::drain && is_drained());
  }
  bool is_short_of_workers() const noexcept;
  bool has_closed() const noexcept;
  void replace_workers() noexcept;
  void leave(pool_worker& w) noexcept;
  void keep_leavers() noexcept;
  void gone(pool_worker& w) noexcept;
  pool_task* take_next(pool_worker& w, bool clock_is_right) noexcept;
  void woken(pool_worker& w);
  pool_task* work_off(pool_worker& w, bool is_parked, pool_task* done = nullptr);
  void call(pool_worker& w, pool_task& t) noexcept;
  void settle(pool_worker& w) noexcept;
  void parked(pool_worker& w, suspended& s) noexcept;
  void rest(pool_worker& w, duration d) noexcept;
  void rest_is_over(pool_worker& w) noexcept;
  void request_cancel(pool_worker& w) noexcept;
  void do_cancel(pool_worker& w) noexcept;
  bool is_simple(const pool_worker& w, const pool_task& t) const noexcept;
  void finish_simple(pool_worker& w, pool_task& t) noexcept;
  void caught(pool_worker& w, const pool_task& t) noexcept;
  void examine(pool_worker& w, pool_task& t) noexcept;
  bool finish(pool_worker& w, pool_task& t) noexcept;
  bool try_again(pool_task& t, duration least_delay) noexcept;
  void restarted(pool_worker& w, const std::exception_ptr& cause) noexcept;
  void apply_stop(stop_mode mode) noexcept;
  void check_drained() noexcept;
  void check_closed() noexcept;
  bool look(pool_stats& s, std::vector<const std::string*>& texts) const noexcept;

  net::awaitable<void> park(pool_worker& w);
  net::awaitable<void> main(life l);
  net::awaitable<void> evict_resource(pool_worker& w);
  net::awaitable<void> prepare_resource(pool_worker& w);
  bool end_with_resource(pool_worker& w, pool_task& t) noexcept;
  net::awaitable<void> mend_resource(pool_worker& w, std::exception_ptr cause, bool is_broken);
  net::awaitable<void> drop_resource(pool_worker& w);
  void begin_care(pool_worker& w) noexcept;
  void begin_call(pool_worker& w) noexcept;
  void end_care(pool_worker& w) noexcept;
  std::exception_ptr what_failed(pool_worker& w, const char* call) noexcept;
  enum class step : std::uint8_t { leave, evict, prepare, work, rest };
  step next_step(pool_worker& w, pool_task* done, pool_task*& t) noexcept;

  pool_backlog backlog_;
  const pool_core_options options_;
  const bool is_plain_;  // tasks without options of their own need no extras
  std::unique_ptr<pool_resources> resources_;

  // To be carried out after the lock.
  pool_task* ended_ = nullptr;
  bool replaces_workers_ = false;  // it is time to make others for those that have gone untold

  stop_mode mode_ = stop_mode{};  // 0: not stopping
  pool_crew crew_;
  self_wait self_waits_;
  std::size_t made_ = 0;         // resources
  std::size_t undelivered_ = 0;  // tasks that have ended and whose callers were not told yet
  pool_waiter_list closed_waiters_;
  std::uint64_t next_id_ = 0;
  std::uint64_t random_ = 0;
  time_point coarse_now_{};
  time_point grace_at_ = time_point::max();
  pool_counts counts_;
  pool_restarts restarts_;
  pool_groups groups_;
  pool_names names_;
  std::vector<std::unique_ptr<pool_worker>> workers_;

  engine_alarm grace_;
};

}  // namespace canigo::detail
