#pragma once

#include "canigo/algorithms/backoff.hpp"
#include "canigo/jobs/job_info.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace canigo::jobs {

/// The rules of a store for all of its jobs.
struct store_policy {
  std::uint32_t most_crashes = 3;  ///< a job that crashes so often is dead; 1 or more
  /// The delay before a job that crashed may run again.
  backoff after_crash = {.first = std::chrono::seconds{1}, .cap = std::chrono::minutes{1}, .jitter = jitter::equal};
};

struct claim_request {
  std::string queue = "default";
  std::size_t limit = 1;                      ///< most jobs to take; 1 or more
  duration lease = std::chrono::seconds{30};  ///< more than 0
};

/// The answer to a report about a run.
enum class verdict : std::uint8_t {
  accepted,
  superseded,  ///< the lease is not the job's last one, or the job has ended: nothing was changed
};

/// The answer to a renewal.
struct extension {
  jobs::verdict verdict = verdict::superseded;
  bool is_cancelled = false;              ///< the job was cancelled: its run should end
  duration expires_in = duration::max();  ///< until the deadline; 0 or less: it has passed
};

enum class cancel_answer : std::uint8_t {
  unknown,    ///< there is no such job
  ended,      ///< it had ended before
  cancelled,  ///< it waited, and has ended now
  marked,     ///< it runs, and extend() tells its holder
};

struct requeue_answer {
  enum class type : std::uint8_t {
    unknown,    ///< there is no such job
    unended,    ///< it waits or runs, and was left as it is
    key_taken,  ///< another job has its key; nothing was changed
    requeued,
  };
  type what = type::unknown;
  job_id holder = 0;  ///< the job that has the key
};

enum class remove_answer : std::uint8_t { unknown, running, removed };

struct trim_request {
  std::string queue = "default";
  duration older_than = duration::max();  ///< jobs that ended so long ago are removed; 0 or more; max: none by age
  std::size_t keep = SIZE_MAX;  ///< how many of the others stay, the last ones; up to 100'000, or SIZE_MAX: all
  std::size_t limit = 500;      ///< most jobs to remove in one step; 1 or more
};

struct list_request {
  std::string queue = {};               ///< empty: all queues
  std::optional<job_state> state = {};  ///< empty: all states
  std::string batch = {};               ///< empty: all jobs
  job_id after = 0;                     ///< only jobs with a greater number
  std::size_t limit = 100;              ///< most jobs to return; 1 to 1000
};

/// The database of a store, and a trouble that it has although its calls succeed.
struct store_facts {
  std::string engine = {};        ///< the database and its version, such as "SQLite 3.40.1"; empty: unknown yet
  std::error_code trouble = {};   ///< such as error::not_notified
  std::string trouble_text = {};  ///< the trouble in words, with the place and an advice; empty: nothing is wrong
};

/// Keeps jobs. An asynchronous actor: every member is one step that takes place whole, or not at all.
///
/// A store decides nothing about when and where jobs run; that is the service's work. All spans count by the store's
/// own clock, so the clocks of clients do not matter. A user's own store passes `canigo/jobs/conformance.hpp`.
///
/// Errors of all members:
/// - jobs::error, with a text that names the place, the database's code, and what to do;
/// - errc::invalid_argument, errc::invalid_priority and errc::too_large for arguments outside their range;
/// - errc::stopped after stop().
///
/// An awaitable has no effect before it is started. Until then it keeps its arguments.
/// Under g++ 12, give a new_job, claim_request or list_request a name, and write no braces inside of a co_await
/// expression: that compiler would destroy the strings in them twice.
/// Cancellation: none, except of changed(). A step that was handed over is carried out, and ends by itself in the time
/// that the store's options name.
/// Threads: any, all members, at once.
/// Lifetime: the store must outlive each call.
class store {
 public:
  store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  virtual ~store() = default;

  /// Adds the jobs, in one step. When it returns they are as durable as the store can make them.
  ///
  /// Of jobs with one key, the first is added and the others are answered with its number. A job that waits for a
  /// batch waits for all members in the same list, whatever their order.
  virtual net::awaitable<std::vector<put_answer>> put_all(std::vector<new_job> list) = 0;
  net::awaitable<put_answer> put(new_job j);

  /// Takes jobs that are due: by priority, then by due time, then by number. Returns none from a queue that is paused.
  ///
  /// First it ends a limited number of leases and deadlines that ran out, of any queue.
  virtual net::awaitable<std::vector<claimed_job>> claim(claim_request r) = 0;

  /// Ends the job. A holder whose lease ran out may still do so if no other holder was given the job.
  virtual net::awaitable<verdict> complete(lease l, std::string result) = 0;
  /// Ends a run that failed. The job waits for `retry_in`, or is dead if that was the last attempt, or `retry_in` is
  /// max. A job that was cancelled is cancelled now.
  virtual net::awaitable<verdict> fail(lease l, std::string text, duration retry_in) = 0;
  /// Lets the job wait for `d`, 0 or more. Uses up no attempt. A job that was cancelled is cancelled now.
  virtual net::awaitable<verdict> snooze(lease l, duration d) = 0;
  /// Undoes the claim of a job that was not begun. A job that was cancelled is cancelled now.
  virtual net::awaitable<verdict> give_back(lease l) = 0;
  /// Renews the lease for `d`, more than 0, and notes the progress, if there is one.
  virtual net::awaitable<extension> extend(lease l, duration d, std::optional<std::string> progress) = 0;

  virtual net::awaitable<cancel_answer> cancel(job_id id) = 0;
  /// Lets a job that has ended run again, at once. It gets one attempt more at least; its crashes are forgotten, and so
  /// is a deadline that has passed.
  virtual net::awaitable<requeue_answer> requeue(job_id id) = 0;
  /// Forgets a job that does not run.
  virtual net::awaitable<remove_answer> remove(job_id id) = 0;
  /// Removes jobs that have ended, oldest first, and returns how many. Call it again until it returns 0.
  virtual net::awaitable<std::size_t> trim(trim_request r) = 0;

  /// A queue that is paused hands out no jobs. Idempotent. The queue need not exist.
  virtual net::awaitable<void> pause(std::string queue) = 0;
  virtual net::awaitable<void> resume(std::string queue) = 0;

  /// The time until a claim can find more than now: a job of the queue falls due, or a lease or deadline of any queue
  /// ends. 0: at once; max: no such time is known.
  virtual net::awaitable<duration> next_due(std::string queue) = 0;
  /// The time by the store's clock.
  virtual net::awaitable<instant> clock() = 0;
  virtual net::awaitable<std::optional<job_info>> look(job_id id) = 0;
  /// Jobs by number, without payload, result and history. It also reads every job that it leaves out.
  virtual net::awaitable<std::vector<job_info>> list(list_request r) = 0;
  /// All queues that are known, by name.
  virtual net::awaitable<std::vector<queue_count>> count() = 0;

  /// Waits until something has changed that callers may wait for: jobs came, ended or were cancelled.
  ///
  /// `seen` is the result of the last call, at first 0. The result is a hint: changes of other processes may be noticed
  /// late, after seconds. Errors: errc::stopped. Cancellation: terminal, partial, total.
  virtual net::awaitable<std::uint64_t> changed(std::uint64_t seen) = 0;

  /// Ends every later call, and every changed(), with errc::stopped. Calls that were handed over are carried out.
  /// Idempotent.
  virtual void stop() noexcept = 0;

  /// Where the jobs are: a file, or a URL without its password.
  virtual std::string where() const = 0;
  /// The facts as known from the last calls. Does not wait. Allocates.
  virtual store_facts facts() const { return {}; }
};

}  // namespace canigo::jobs
