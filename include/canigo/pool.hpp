#pragma once

#include "canigo/algorithms/backoff.hpp"
#include "canigo/algorithms/histogram.hpp"
#include "canigo/net.hpp"
#include "canigo/request.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace canigo {

/// The state of a task in a pool.
enum class task_state : std::uint8_t { queued, delayed, running, succeeded, failed, cancelled, timed_out, stopped };

constexpr bool has_ended(task_state s) noexcept { return s >= task_state::succeeded; }

constexpr std::string_view to_string(task_state s) noexcept {
  switch (s) {
    case task_state::queued:
      return "queued";
    case task_state::delayed:
      return "delayed";
    case task_state::running:
      return "running";
    case task_state::succeeded:
      return "succeeded";
    case task_state::failed:
      return "failed";
    case task_state::cancelled:
      return "cancelled";
    case task_state::timed_out:
      return "timed_out";
    case task_state::stopped:
      return "stopped";
  }
  return "?";
}

class flow;

/// The options of one operation in a pool. The struct is trivially destructible, because some compilers mishandle other
/// types inside a co_await expression.
struct task_options {
  int priority = 0;  ///< priority class, 0 (goes first) … priorities-1
  /// time limit of each attempt; if set, replaces the pool's time limit; more than 0; max: no time limit
  std::optional<duration> timeout = {};
  duration delay = duration::zero();  ///< time before the task is queued; 0 or more
  std::uint64_t group = 0;            ///< the group for cancel_group() and wait_group(); 0: no group
  /// the name of the task in the statistics; copied; a pool distinguishes the first 255 names
  std::string_view name = {};
  retry_policy retry = {};       ///< the task's retry policy; if its `attempts` is 0 (the default), the pool's is used
  deadline_point deadline = {};  ///< the latest end of the task, with all attempts and waits
  /// the flow of the pool that the task belongs to; null: a nameless flow of weight 1
  const canigo::flow* flow = nullptr;
};

namespace detail {
class pool_core;
class pool_worker;
}  // namespace detail

/// Access of a running operation to its own task. Valid until the operation ends.
class task_context {
 public:
  task_context(const task_context&) = delete;
  task_context& operator=(const task_context&) = delete;

  std::uint64_t id() const noexcept;
  /// The number of this attempt of the task; the first attempt has number 1.
  std::uint32_t attempt() const noexcept;
  /// The instant at which this attempt is cancelled; time_point::max() if it has no time limit.
  time_point deadline() const noexcept;
  /// Whether the operation should end: its time limit passed, its owner cancelled it, or the pool cancels everything.
  /// This function reads the clock itself, so its answer is right even if operations occupy all threads. May be called
  /// on any thread.
  bool stop_requested() const noexcept;
  /// The strand of the worker. A handler that is posted to it never runs at the same time as the operation. A coroutine
  /// that is spawned on it counts as part of this operation until the operation ends. Call this function on the strand.
  const net::any_io_executor& executor() const noexcept;
  /// The index of the worker, counted from 0.
  std::size_t worker() const noexcept;

  /// A request for a limit, with the deadline of this attempt. If no grant is possible before that deadline, `co_await
  /// scheduler.acquire(t.request(1))` fails immediately.
  canigo::request request(int priority = 0, std::uint64_t tokens = 1) const noexcept {
    return {.priority = priority, .tokens = tokens, .deadline = deadline()};
  }

 private:
  friend class detail::pool_core;
  friend class detail::pool_worker;
  template <class R>
  friend R& resource_of(task_context&) noexcept;
  explicit task_context(detail::pool_worker& w) noexcept : worker_{&w} {}
  void* resource() const noexcept;

  detail::pool_worker* worker_;
};

/// The state of one task of a pool when an observer is called.
struct task_event {
  std::uint64_t id = 0;
  std::string_view name;  ///< the name of the task; valid only during the call
  int priority = 0;
  std::uint64_t group = 0;
  std::uint32_t attempt = 0;  ///< number of the attempt, from 1; 0 if the task never ran
  task_state state = task_state::queued;
  duration waited{};  ///< how long the task was queued before the last attempt
  duration ran{};     ///< how long the last attempt ran
};

/// The base class of observers, for metrics and logs. A pool calls its observer when an attempt of a task starts, and
/// when a task ends. Without an observer, the cost for the pool is one branch.
///
/// Threads: several threads may call an observer at the same time, with no lock held. Its functions must not throw, and
/// should return soon: a worker waits for them.
class pool_observer {
 public:
  /// Called when an attempt starts. From attempt 2 on, the previous attempt has failed.
  virtual void attempt_started(const task_event&) noexcept {}
  virtual void task_ended(const task_event&) noexcept {}

 protected:
  ~pool_observer() = default;
};

/// An operation throws this exception to report that it has failed, and that the resource or state of its worker is
/// broken.
class fatal_error : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

/// How often the workers of a pool may break before the pool stops, and how long a broken worker waits before it
/// restarts.
struct restart_policy {
  /// max number of restarts, of all workers together, in each span of time `within`; one more restart stops the pool; 0
  /// to 10'000
  std::uint32_t limit = 10;
  duration within = std::chrono::minutes{1};  ///< the span of time for `limit`; more than 0
  canigo::backoff backoff = {};               ///< the delay before a worker restarts; depends on its failures in a row
  /// Decides which exceptions of an operation mean a broken worker. Null: only fatal_error. Called with no lock held.
  bool (*is_fatal)(const std::exception_ptr& error) = nullptr;
};

/// How a pool stops, from soft to hard. A second stop can make the mode harder, but never softer.
///
/// | mode | running operations | queued and delayed tasks | new tasks |
/// |---|---|---|---|
/// | drain | finish | run | end with errc::stopped |
/// | finish_running | finish, with no further attempts | end with errc::stopped | end with errc::stopped |
/// | cancel_all | are cancelled | end with errc::stopped | end with errc::stopped |
///
/// After the grace time, drain and finish_running turn into cancel_all.
enum class stop_mode : std::uint8_t { drain = 1, finish_running, cancel_all };

/// How many tasks of a pool ended in each way: submitted = succeeded + failed + cancelled + timed_out + stopped.
struct stop_report {
  std::uint64_t submitted = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;     ///< tasks that failed, including evicted tasks
  std::uint64_t cancelled = 0;  ///< tasks that were cancelled by their owner or by the stop of the pool
  std::uint64_t timed_out = 0;
  std::uint64_t stopped = 0;    ///< tasks without a result, because the pool stopped
  std::uint64_t escalated = 0;  ///< tasks that still ran at the end of the grace time, and were cancelled then
  std::exception_ptr cause;     ///< why the pool stopped by itself; null if the program stopped it
};

/// An operation that still runs after its time limit.
struct overdue_task {
  std::uint64_t id = 0;
  std::string name;
  duration age{};  ///< the time since this attempt started
  std::size_t worker = 0;
};

/// The statistics of all operations with one name. After the first 255 names of a pool, further names are counted
/// together as "(other)".
struct name_stats {
  std::string name;
  std::uint64_t attempts = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;  ///< number of attempts that did not succeed
  wait_histogram waited;     ///< the time in the queue, per attempt
  wait_histogram ran;        ///< how long the attempts ran
};

/// The statistics of a pool, all read at one instant.
///
/// submitted = succeeded + failed + cancelled + timed_out + stopped + queued + delayed + held_back + running. Here
/// `running` is `working`, minus the overdue operations whose task has ended.
struct pool_stats {
  std::size_t working = 0;    ///< workers that run an operation
  std::size_t sleeping = 0;   ///< workers that wait for an operation
  std::size_t repairing = 0;  ///< workers that make, check or destroy their resource, or wait to restart
  std::size_t queued = 0;     ///< tasks that are ready to run
  std::size_t delayed = 0;    ///< tasks that will be queued later: with a delay, or waiting for their next attempt
  std::size_t held_back = 0;  ///< producers that wait for room in the queue
  std::size_t resources = 0;  ///< number of resources that a resource_pool has made and not destroyed
  std::vector<std::size_t> queued_by_class;
  /// How long the oldest queued task has waited. The value may be too high by the duration of one handler of the pool.
  duration oldest_wait{};

  std::uint64_t submitted = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t timed_out = 0;
  std::uint64_t stopped = 0;
  std::uint64_t rejected = 0;  ///< tasks that were never submitted: the queue was full, or the pool stopped
  std::uint64_t evicted = 0;   ///< tasks evicted from a full queue; `failed` counts them, too
  std::uint64_t retries = 0;   ///< attempts after the first attempt of a task
  /// restarts of workers; a restart that exceeds the limit, and so stops the pool, is counted, too
  std::uint64_t restarts = 0;
  std::uint64_t overdue_total = 0;    ///< tasks that ended for their caller before their operation had ended
  std::vector<overdue_task> overdue;  ///< operations that still run after their time limit
  std::vector<name_stats> names;
};

}  // namespace canigo
