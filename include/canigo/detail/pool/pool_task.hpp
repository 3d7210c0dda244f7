#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/base/block_cache.hpp"
#include "canigo/detail/pool/pool_waiter_list.hpp"
#include "canigo/detail/pool/task_life.hpp"
#include "canigo/detail/queue/wait_queue.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/pool.hpp"

#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <system_error>
#include <utility>

namespace canigo::detail {

class pool_backlog;
class pool_core;
class pool_flows;
class pool_waiter;
class pool_worker;
struct task_extras;

/// An operation that was submitted to a pool: its callable, its state, its result, and the callers that wait for it.
///
/// The pool holds a reference until the task has ended; handles and waiting callers hold references, too.
class pool_task : public wait_node {
 public:
  static void* operator new(std::size_t size) { return allocate_block(size); }
  static void operator delete(void* p, std::size_t size) noexcept { deallocate_block(p, size); }

  explicit pool_task(bool is_long) noexcept : is_long_{is_long} {}

  void add_ref() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release_ref() noexcept {
    if (references_.load(std::memory_order_acquire) == 1 || references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete this;
  }

  bool is_long() const noexcept { return is_long_; }
  std::uint64_t id() const noexcept { return id_; }
  task_state state() const noexcept { return state_.load(std::memory_order_acquire); }
  /// The pool of the task. Precondition: the task was submitted with a handle.
  pool_core& home() const noexcept { return *home_; }

  /// Throws the error of the task, if it ended with one. Precondition: the task has ended.
  void throw_if_failed() const {
    if (error_ || code_ != no_code) [[unlikely]]
      throw_failure();
  }
  /// The exception that throw_if_failed() would throw, as a pointer; null if the task has a result.
  std::exception_ptr failure() const noexcept;

 protected:
  virtual ~pool_task() {
    if (extras_ != nullptr || home_ != nullptr) [[unlikely]]
      let_go();
  }

 private:
  friend class pool_backlog;
  friend class pool_core;
  friend class pool_flows;
  friend class pool_waiter;
  friend class pool_worker;
  friend class canigo::task_context;

  using cause = task_life::cause;
  using phase = task_life::phase;
  enum class place : std::uint8_t {
    queue,       // the task waits in the queue of a pool without flows
    flow_queue,  // the task waits in the queue of its flow
    held,        // the task waits outside the full queue, until the queue has room
  };

  static constexpr int no_code = 0;
  static constexpr int aborted = -1;
  static constexpr int deadlock = -2;
  static constexpr int abandoned = -3;  // the code of a task that ends with broken_promise; a code above 0 is an errc

  /// Runs a short operation, stores its result and destroys the callable. If the operation throws, call() throws the
  /// same exception, and does not destroy the callable.
  virtual void call(task_context& context) = 0;
  /// Like call(), for a long operation, which runs as a coroutine.
  virtual net::awaitable<void> start(task_context& context) = 0;
  virtual void drop_callable() noexcept = 0;

  bool is_to_end() const noexcept { return end_cause_.load(std::memory_order_acquire) != cause::none; }
  /// Records why the operation was asked to end. Precondition: the lock of the pool is held.
  void note_cause(cause c) noexcept {
    if (end_cause_.load(std::memory_order_relaxed) == cause::none) end_cause_.store(c, std::memory_order_release);
  }
  cause end_cause() const noexcept { return end_cause_.load(std::memory_order_acquire); }
  phase where() const noexcept {
    const task_state s = state();
    if (s == task_state::running) return is_long_ ? phase::runs_long : phase::runs_short;
    return has_ended(s) ? phase::ended : phase::waits;
  }
  /// Whether the task has a delay, so that workers can't take it immediately.
  bool is_to_be_delayed() const noexcept;
  /// The error code of a task that ended in state `s`; no_code if it succeeded, or if its exception has the details.
  static int code_of(task_state s) noexcept;
  /// Records the end of the task. Call it under the lock of its pool.
  void set_end(task_state s, int code, std::exception_ptr e) noexcept {
    error_ = std::move(e);
    code_ = code;
    state_.store(s, std::memory_order_release);
  }
  /// Destroys the callable if it still exists.
  void drop() noexcept {
    if (!std::exchange(is_dropped_, true)) drop_callable();
  }
  /// The event that an observer gets for this task. Precondition: the task has task_extras.
  task_event event() const noexcept;
  void let_go() noexcept;
  [[noreturn]] void throw_failure() const;
  static std::error_code to_error_code(int code) noexcept;

  std::uint64_t id_ = 0;
  pool_core* home_ = nullptr;  // the task's pool; null until the task holds a reference to the pool
  pool_worker* worker_ = nullptr;
  pool_waiter_list waiters_;
  task_extras* extras_ = nullptr;
  pool_task* next_ended_ = nullptr;
  std::exception_ptr error_;
  atomic<std::uint32_t> references_{1};
  int code_ = no_code;
  atomic<task_state> state_{task_state::queued};
  atomic<cause> end_cause_{cause::none};  // why the operation was first asked to end; none: it was not asked
  const bool is_long_;
  place place_ = place::queue;     // the list in which the task waits; without a meaning while the task is delayed
  bool is_told_ = false;           // whether the end was reported to the owner although the operation still runs
  bool cancel_requested_ = false;  // whether the owner has cancelled the task
  bool is_dropped_ = false;        // whether the callable was destroyed
  bool is_delivered_ = false;      // whether the callers that wait for this task were resumed
  bool has_lost_flow_ = false;     // whether the task's flow was destroyed while the task ran
};

/// Owns one reference to a task.
template <class Task = pool_task>
class task_ref {
 public:
  task_ref() noexcept = default;
  explicit task_ref(Task* t) noexcept : task_{t} {}
  task_ref(const task_ref& other) noexcept : task_{other.task_} {
    if (task_ != nullptr) task_->add_ref();
  }
  task_ref(task_ref&& other) noexcept : task_{other.release()} {}
  task_ref& operator=(task_ref other) noexcept {
    Task* t = task_;
    task_ = other.task_;
    other.task_ = t;
    return *this;
  }
  ~task_ref() {
    if (task_ != nullptr) task_->release_ref();
  }

  Task* get() const noexcept { return task_; }
  Task& operator*() const noexcept { return *task_; }
  Task* operator->() const noexcept { return task_; }
  explicit operator bool() const noexcept { return task_ != nullptr; }
  Task* release() noexcept {
    Task* t = task_;
    task_ = nullptr;
    return t;
  }

 private:
  Task* task_ = nullptr;
};

}  // namespace canigo::detail
