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

/// The options of one operation in a pool. Trivially destructible; see retry_policy.
struct task_options {
  int priority = 0;                      ///< class, 0 (first) … priorities-1
  std::optional<duration> timeout = {};  ///< of each attempt, instead of the pool's; more than 0; max: none
  duration delay = duration::zero();     ///< before it is queued; 0 or more
  std::uint64_t group = 0;               ///< for cancel_group and wait_group; 0: none
  std::string_view name = {};            ///< for the statistics; copied; the first 255 of a pool are told apart
  retry_policy retry = {};               ///< with 0 attempts, the default: the pool's policy
  deadline_point deadline = {};          ///< the deadline of all attempts and the waiting together
  const canigo::flow* flow = nullptr;    ///< the share of the pool that it takes; null: a nameless flow of weight 1
};

namespace detail {
class pool_core;
class pool_worker;
}  // namespace detail

/// Lets a running operation ask about itself. Valid until the operation ends.
class task_context {
 public:
  task_context(const task_context&) = delete;
  task_context& operator=(const task_context&) = delete;

  std::uint64_t id() const noexcept;
  /// The number of this attempt; the first one is 1.
  std::uint32_t attempt() const noexcept;
  /// When this attempt is cancelled; time_point::max() if it has no time limit.
  time_point deadline() const noexcept;
  /// Whether the operation should end: its time is over, its owner cancelled it, or the pool cancels everything. It
  /// reads the clock itself, so it is right even if operations occupy all threads. May be called on any thread.
  bool stop_requested() const noexcept;
  /// The strand of the worker. A handler that is posted there never runs at the same time as the operation. The pool
  /// counts a coroutine there as part of this operation until the operation ends, and no longer. Call this on the
  /// strand.
  const net::any_io_executor& executor() const noexcept;
  /// The index of the worker, from 0.
  std::size_t worker() const noexcept;

  /// A request with the deadline of this attempt. If the grant would come too late,
  /// `co_await scheduler.acquire(t.request(1))` fails at once.
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

/// One task of a pool, at the moment of a call.
struct task_event {
  std::uint64_t id = 0;
  std::string_view name;  ///< valid during the call
  int priority = 0;
  std::uint64_t group = 0;
  std::uint32_t attempt = 0;  ///< 1 is the first; 0 if it never ran
  task_state state = task_state::queued;
  duration waited{};  ///< how long it was queued before the last attempt
  duration ran{};     ///< the last attempt
};

/// Learns what happens in a pool, for metrics and logs. A pool that has no observer pays one branch for it.
///
/// Threads: any, several at once; no lock is held. Must not throw, and should return soon: a worker waits for it.
class pool_observer {
 public:
  virtual void attempt_started(const task_event&) noexcept {}  ///< attempt 2 and up: the one before it has failed
  virtual void task_ended(const task_event&) noexcept {}

 protected:
  ~pool_observer() = default;
};

/// An operation throws this to say that it has failed, and that the resource or state of its worker is broken, too.
class fatal_error : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

/// How often the workers of a pool may break before the pool stops, and how long a broken worker waits.
struct restart_policy {
  std::uint32_t limit = 10;  ///< restarts of all workers together within `within`; one more stops the pool; 0 to 10'000
  duration within = std::chrono::minutes{1};  ///< more than 0
  canigo::backoff backoff = {};               ///< the delay before a worker starts again, by its failures in a row
  /// Which errors of an operation mean a broken worker. Null: fatal_error only. Called with no lock held.
  bool (*is_fatal)(const std::exception_ptr& error) = nullptr;
};

/// How a pool stops, from soft to hard. A harder mode may follow a softer one. A softer one after that does not soften
/// the stop.
///
/// | mode | running operations | queued and delayed tasks | new tasks |
/// |---|---|---|---|
/// | drain | finish | run | end with errc::stopped |
/// | finish_running | finish, with no further attempts | end with errc::stopped | end with errc::stopped |
/// | cancel_all | are cancelled | end with errc::stopped | end with errc::stopped |
///
/// When a grace is over, drain and finish_running turn into cancel_all.
enum class stop_mode : std::uint8_t { drain = 1, finish_running, cancel_all };

/// How all tasks of a pool ended: submitted = succeeded + failed + cancelled + timed_out + stopped.
struct stop_report {
  std::uint64_t submitted = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;     ///< including the evicted ones
  std::uint64_t cancelled = 0;  ///< by their owner or by the stop
  std::uint64_t timed_out = 0;
  std::uint64_t stopped = 0;    ///< never ran to an end, because the pool stopped
  std::uint64_t escalated = 0;  ///< were still running when the grace was over, and were cancelled then
  std::exception_ptr cause;     ///< why the pool stopped by itself; null if it was told to stop
};

/// An operation that still runs although its time is up.
struct overdue_task {
  std::uint64_t id = 0;
  std::string name;
  duration age{};  ///< since this attempt started
  std::size_t worker = 0;
};

/// The statistics of all operations with one name. Names beyond the first 255 of a pool are counted together as
/// "(other)".
struct name_stats {
  std::string name;
  std::uint64_t attempts = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;  ///< ended in any other way
  wait_histogram waited;     ///< in the queue, per attempt
  wait_histogram ran;        ///< per attempt
};

/// A pool at one moment. Consistent: taken in one step.
///
/// submitted = succeeded + failed + cancelled + timed_out + stopped + queued + delayed + held_back + running. Here
/// `running` is `working` without the overdue operations whose task has ended.
struct pool_stats {
  std::size_t working = 0;    ///< workers that run an operation
  std::size_t sleeping = 0;   ///< workers that wait for one
  std::size_t repairing = 0;  ///< workers that make, check or destroy their resource, or wait to start again
  std::size_t queued = 0;     ///< available: could run now
  std::size_t delayed = 0;    ///< will be queued later: delays, and attempts that wait for their turn
  std::size_t held_back = 0;  ///< producers that wait for room in the queue
  std::size_t resources = 0;  ///< of a resource_pool
  std::vector<std::size_t> queued_by_class;
  /// How long the task that was queued first has waited; too long by one turn of a worker at most.
  duration oldest_wait{};

  std::uint64_t submitted = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t timed_out = 0;
  std::uint64_t stopped = 0;
  std::uint64_t rejected = 0;         ///< never submitted: the queue was full, or the pool stopped
  std::uint64_t evicted = 0;          ///< counted in `failed`, too
  std::uint64_t retries = 0;          ///< attempts after the first
  std::uint64_t restarts = 0;         ///< how often workers restarted, with the one time too many that stopped the pool
  std::uint64_t overdue_total = 0;    ///< tasks whose caller was told before the operation had ended
  std::vector<overdue_task> overdue;  ///< now
  std::vector<name_stats> names;
};

}  // namespace canigo
