#pragma once

#include "canigo/detail/context/engine_alarm.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/pool/attempt_end.hpp"
#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_crew.hpp"
#include "canigo/detail/pool/pool_task.hpp"
#include "canigo/detail/pool/self_wait.hpp"
#include "canigo/detail/pool/worker_cancel.hpp"
#include "canigo/detail/pool/worker_resource.hpp"
#include "canigo/detail/pool/worker_strand.hpp"
#include "canigo/net.hpp"
#include "canigo/pool.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

namespace canigo::detail {

/// One worker of a pool: a coroutine on its own strand, which lives as long as the pool.
///
/// It runs operations, cancels them, and makes and repairs its resource. The pool decides which task is next, and how a
/// task ends. An idle worker is suspended. When it is woken, it runs short operations one after another inside the
/// handler that woke it. It resumes its coroutine only for a long operation or for its resource.
///
/// All members are used under the lock of the pool, unless their comment says otherwise.
class pool_worker : public crew_member, public self_wait::worker {
 public:
  pool_worker(pool_core& home, std::size_t index);

 private:
  friend class pool_core;
  friend class pool_flows;
  friend class pool_waiter;
  friend class pool_task;
  friend class canigo::task_context;
  friend struct worker_end;

  /// A call that is posted to the strand. It holds a reference to the pool.
  struct strand_call : suspended {
    explicit strand_call(pool_worker& w) noexcept : worker{&w} {}
    void post() override { worker->strand_->post(*this); }
    void destroy() noexcept override;
    pool_worker* worker;

   protected:
    ~strand_call() = default;
  };
  struct wake_call final : strand_call {
    using strand_call::strand_call;
    void resume() override;
  };
  struct cancel_call final : strand_call {
    using strand_call::strand_call;
    void resume() override;
  };
  /// Wakes the worker on its strand, immediately if the strand is free. The pool's base class `delivery` calls resume()
  /// of this object.
  struct hand_over_call final : suspended {
    explicit hand_over_call(pool_worker& w) noexcept : worker{&w} {}
    void resume() override;
    void post() override { worker->wake_.post(); }
    void destroy() noexcept override { worker->wake_.destroy(); }
    pool_worker* worker;
  };
  struct rest_alarm : engine_alarm {
    explicit rest_alarm(pool_worker& w) noexcept;
    pool_worker* worker;
  };
  void wake() noexcept;
  /// Asks the running operation, or the running function for the resource, to end.
  void cancel() noexcept;
  bool may_be_cancelled() const noexcept {
    return is(state::running) || is(state::repairing) || (is(state::leaving) && is_overdue_);
  }
  void settle() noexcept;
  void restart(const std::exception_ptr& cause) noexcept;
  void end_rest() noexcept;
  void rest_is_over() noexcept;
  void note_idle() noexcept;
  void retire() noexcept;
  void begin_care(worker_resource::function f) noexcept;

  // These functions run on the strand, without the lock.
  void spawn();
  /// Returns a reference to the pool, which the worker's new coroutine holds. The destructor of this reference tells
  /// the pool that the coroutine has ended.
  worker_life live() noexcept;
  void gone() noexcept;
  net::awaitable<void> main();
  net::awaitable<void> park();
  void parked(suspended& s) noexcept;
  void woken();
  void weigh(pool_task& t) noexcept;
  net::awaitable<void> care();
  void end_care(std::exception_ptr error) noexcept;
  void cancel_now() noexcept;

  /// The number that identifies the running operation. The operation's executor carries this number.
  std::uint32_t mark() const noexcept { return static_cast<std::uint32_t>(serial_) | 1u << 31; }

  pool_core* home_;
  const std::size_t index_;
  std::unique_ptr<worker_strand> strand_;
  net::cancellation_signal signal_;  // cancels the running operation; used on the strand only
  suspended* parked_ = nullptr;
  pool_task* current_ = nullptr;
  pool_task* handed_ = nullptr;  // a long task that the coroutine must run; used on the strand only
  attempt_end end_;              // how the last operation ended; used on the strand only
  worker_resource resource_;     // the state of the worker's resource; used on the strand only
  // the function of worker_resource that is running; none: no such function is running
  worker_resource::function care_ = worker_resource::function::none;
  task_context context_;
  wake_call wake_;
  hand_over_call hand_over_;
  cancel_call cancel_;
  worker_cancel cancelling_;
  rest_alarm rest_;
  std::uint64_t serial_ = 0;    // counts the worker's operations and resource functions, including the current one
  int tasks_left_ = 0;          // how many more tasks the worker may begin in this turn; used on the strand only
  std::uint32_t failures_ = 0;  // number of the worker's operations that failed in a row
  time_point idle_since_{};
  bool is_overdue_ = false;  // whether a function of the worker's resource has exceeded its time limit
};

/// Returns the next step of a worker's coroutine. `t`: the task that the coroutine has run last, or nullptr. If the
/// result is step::work, `t` is set to the next task.
inline pool_core::step pool_core::next_step(pool_worker& w, pool_task*& t) noexcept {
  if (resources_) return next_step_with_resource(w, t);
  pool_task* done = std::exchange(t, std::exchange(w.handed_, nullptr));
  if (t == nullptr && !w.is_retired()) t = work_off(w, false, done);
  return t != nullptr ? step::work : w.is_retired() ? step::leave : step::rest;
}

inline void pool_worker::wake() noexcept {
  if (home_->runs_on_io_context_) {
    home_->add_ref();
    home_->make_ready(hand_over_, true);
  } else {
    home_->post_soon(wake_);
  }
}

}  // namespace canigo::detail
