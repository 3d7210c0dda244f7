#pragma once

#include "canigo/detail/context/engine_alarm.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/detail/pool/pool_crew.hpp"
#include "canigo/detail/pool/self_wait.hpp"
#include "canigo/detail/pool/task_life.hpp"
#include "canigo/detail/pool/worker_strand.hpp"
#include "canigo/net.hpp"
#include "canigo/task_context.hpp"
#include "canigo/time_source.hpp"

#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>

namespace canigo::detail {

class pool_core;
class pool_task;
class pool_waiter;

/// One worker of a pool: a coroutine on a strand of its own that lives as long as the pool.
///
/// Asleep, it is parked. Woken, it runs short operations one after another without leaving the handler that woke it,
/// and its coroutine is resumed only for a long one. All members are the pool's, under its lock, unless said otherwise.
class pool_worker : public crew_member, public self_wait::worker {
 public:
  pool_worker(pool_core& home, std::size_t index);

 private:
  friend class pool_core;
  friend class pool_waiter;
  friend class pool_task;
  friend class canigo::task_context;

  // Wakes the worker: posted to its strand.
  struct wake_call final : suspended {
    explicit wake_call(pool_worker& w) noexcept : worker{&w} {}
    void resume() override;
    void post() override;
    void destroy() noexcept override;
    pool_worker* worker;
  };
  // Calls the worker on its strand, at once if nothing runs there: for the drain of its pool.
  struct hand_over_call final : suspended {
    explicit hand_over_call(pool_worker& w) noexcept : worker{&w} {}
    void resume() override;
    void post() override;
    void destroy() noexcept override;
    pool_worker* worker;
  };
  // Cancels what the worker runs: posted to its strand.
  struct cancel_call final : suspended {
    explicit cancel_call(pool_worker& w) noexcept : worker{&w} {}
    void resume() override;
    void post() override;
    void destroy() noexcept override;
    pool_worker* worker;
  };
  struct rest_alarm : engine_alarm {
    explicit rest_alarm(pool_worker& w) noexcept;
    pool_worker* worker;
  };

  /// Of the operation that runs, on its executor.
  std::uint32_t mark() const noexcept { return static_cast<std::uint32_t>(serial_) | 1u << 31; }

  pool_core* home_;
  const std::size_t index_;
  std::unique_ptr<worker_strand> strand_;
  net::cancellation_signal signal_;  // on the strand only
  suspended* parked_ = nullptr;
  pool_task* current_ = nullptr;
  pool_task* handed_ = nullptr;  // a long one, for the coroutine to run; on the strand only
  std::exception_ptr error_;     // of the operation that has just ended; on the strand only
  void* resource_ = nullptr;     // on the strand only
  task_context context_;
  wake_call wake_;
  hand_over_call hand_over_;
  cancel_call cancel_;
  rest_alarm rest_;
  std::uint64_t serial_ = 0;         // of the operation that it runs or ran last
  std::uint64_t cancel_serial_ = 0;  // what is to be cancelled
  std::uint64_t cancelled_serial_ = 0;
  int tasks_left_ = 0;          // that it may begin before the loop is due for a turn; on the strand only
  std::uint32_t failures_ = 0;  // of its own, in a row
  std::uint32_t turns_ = 0;     // of the loop since the cancellation
  time_point idle_since_{};
  bool cancel_is_out_ = false;
  task_life::cause error_cause_ = task_life::cause::none;  // what had asked the operation to end; on the strand only
  bool is_fatal_ = false;                                  // what error_ is; this and the next on the strand only
  bool retry_ = false;                                     // worth another attempt
  duration least_delay_{};                                 // before that
  bool resource_is_proven_ = false;                        // made or checked, and not used since
  bool evict_ = false;                                     // its resource has been idle for long
  bool is_overdue_ = false;                                // a call for its resource is over its time
  bool is_retired_ = false;  // leaves for good; written under the lock, read there or on the strand
};

}  // namespace canigo::detail
