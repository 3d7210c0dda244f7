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

/// The rules that apply to all jobs of a store.
struct store_policy {
  std::uint32_t most_crashes = 3;  ///< a job is dead after this number of crashes of its process; 1 or more
  /// The delay before a job may run again after a crash of its process.
  backoff after_crash = {.first = std::chrono::seconds{1}, .cap = std::chrono::minutes{1}, .jitter = jitter::equal};
};

struct claim_request {
  std::string queue = "default";
  std::size_t limit = 1;                      ///< max number of jobs to claim; 1 or more
  duration lease = std::chrono::seconds{30};  ///< length of the lease; more than 0
};

/// Whether a report about a run was accepted.
enum class verdict : std::uint8_t {
  accepted,
  superseded,  ///< the lease is not the latest one of the job, or the job has ended: nothing was changed
};

/// The answer to the renewal of a lease.
struct extension {
  jobs::verdict verdict = verdict::superseded;
  bool is_cancelled = false;              ///< whether the job was cancelled, so that its run should end
  duration expires_in = duration::max();  ///< time until the deadline; 0 or less: it has passed
};

enum class cancel_answer : std::uint8_t {
  unknown,    ///< there is no job with this number
  ended,      ///< the job had already ended, so nothing was changed
  cancelled,  ///< the job was waiting, and has now ended as cancelled
  marked,     ///< the job is running, and extend() reports the cancellation to its holder
};

struct requeue_answer {
  enum class type : std::uint8_t {
    unknown,    ///< there is no job with this number
    unended,    ///< the job waits or runs, and was not changed
    key_taken,  ///< another job has the unique key of this job; nothing was changed
    requeued,
  };
  type what = type::unknown;
  job_id holder = 0;  ///< with key_taken: the number of the job that has the key
};

enum class remove_answer : std::uint8_t { unknown, running, removed };

struct trim_request {
  std::string queue = "default";
  /// jobs whose end is longer ago than this are removed; 0 or more; max: no job is removed because of its age
  duration older_than = duration::max();
  /// max number of ended jobs that are kept: those that ended last; up to 100'000, or SIZE_MAX: no maximum
  std::size_t keep = SIZE_MAX;
  std::size_t limit = 500;  ///< max number of jobs to remove in one step; 1 or more
};

struct list_request {
  std::string queue = {};               ///< only jobs of this queue; empty: all queues
  std::optional<job_state> state = {};  ///< only jobs in this state; empty: all states
  std::string batch = {};               ///< only jobs of this batch; empty: all jobs
  job_id after = 0;                     ///< only jobs with a number greater than this
  std::size_t limit = 100;              ///< max number of jobs to return; 1 to 1000
};

/// Facts about a store: its database, and a problem that exists although the calls of the store succeed.
struct store_facts {
  std::string engine = {};        ///< the database and its version, such as "SQLite 3.40.1"; empty: not known yet
  std::error_code trouble = {};   ///< the code of the problem, such as error::not_notified
  std::string trouble_text = {};  ///< describes the problem, the file or server, and what to do; empty: no problem
};

/// Stores jobs durably. Every member is one asynchronous step that takes place completely or not at all.
///
/// A store does not decide when and where jobs run; the service does that. All time spans are measured by the store's
/// own clock, so the clocks of clients do not matter. Test your own store with `canigo/jobs/conformance.hpp`.
///
/// Errors of all members:
/// - jobs::error, with a text that names the file or server, the database's code, and what to do;
/// - errc::invalid_argument, errc::invalid_priority and errc::too_large for arguments out of range;
/// - errc::stopped after stop().
///
/// An awaitable has no effect until it is started. Until then it keeps its arguments.
/// Under g++ 12, give a new_job, claim_request or list_request a name, and write no braces inside a co_await
/// expression: that compiler would destroy the strings in them twice.
/// Cancellation: only of changed(). Other steps are always carried out, and end within the time limits in the store's
/// options.
/// Threads: any thread may call any member at any time.
/// Lifetime: the store must live until each call has ended.
class store {
 public:
  store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  virtual ~store() = default;

  /// Submits the jobs in one step. When put_all() returns, the jobs are as durable as the store can make them.
  ///
  /// If several jobs in `list` have the same unique key, only the first of them is added. The results for the other
  /// jobs have the number of the first job. A job that waits for a batch also waits for all jobs of that batch in
  /// `list`, whatever their positions in the list.
  virtual net::awaitable<std::vector<put_answer>> put_all(std::vector<new_job> list) = 0;
  net::awaitable<put_answer> put(new_job j);

  /// Claims jobs that are due, in this order: by priority, then by due time, then by number. Returns none from a paused
  /// queue.
  ///
  /// Before claim() looks for jobs, it processes a limited number of expired leases and passed deadlines, in any queue.
  virtual net::awaitable<std::vector<claimed_job>> claim(claim_request r) = 0;

  /// Ends the job with a result. A holder whose lease has ended may still call complete() successfully, if no other
  /// process has claimed the job since.
  virtual net::awaitable<verdict> complete(lease l, std::string result) = 0;
  /// Ends a failed run. The job waits for `retry_in` before its next run. The job is dead if this run was its last
  /// attempt, or if `retry_in` is duration::max(). A job that was marked as cancelled ends as cancelled.
  virtual net::awaitable<verdict> fail(lease l, std::string text, duration retry_in) = 0;
  /// Ends a run, and lets the job wait for `d`, 0 or more, before its next run. This run does not count as an attempt.
  /// A job that was marked as cancelled ends as cancelled.
  virtual net::awaitable<verdict> snooze(lease l, duration d) = 0;
  /// Undoes the claim of a job whose run has not begun. A job that was marked as cancelled ends as cancelled.
  virtual net::awaitable<verdict> give_back(lease l) = 0;
  /// Renews the lease for `d`, more than 0, and stores the progress if it is set.
  virtual net::awaitable<extension> extend(lease l, duration d, std::optional<std::string> progress) = 0;

  virtual net::awaitable<cancel_answer> cancel(job_id id) = 0;
  /// Lets an ended job run again immediately. The job gets at least one more attempt. The number of its crashes becomes
  /// 0. If its deadline has passed, the job has no deadline anymore.
  virtual net::awaitable<requeue_answer> requeue(job_id id) = 0;
  /// Removes a job that does not run.
  virtual net::awaitable<remove_answer> remove(job_id id) = 0;
  /// Removes ended jobs, oldest first, and returns their number. Call it again until it returns 0.
  virtual net::awaitable<std::size_t> trim(trim_request r) = 0;

  /// Pauses a queue: until resume(), claim() returns no jobs of this queue. Idempotent. The queue need not exist.
  virtual net::awaitable<void> pause(std::string queue) = 0;
  virtual net::awaitable<void> resume(std::string queue) = 0;

  /// The time until claim() can return more jobs than now. That is the time until a job of the queue becomes due, or
  /// until a lease or a deadline of a job in any queue ends. 0: immediately; duration::max(): no such time is known.
  virtual net::awaitable<duration> next_due(std::string queue) = 0;
  /// The current time of the store's clock.
  virtual net::awaitable<instant> clock() = 0;
  virtual net::awaitable<std::optional<job_info>> look(job_id id) = 0;
  /// Lists jobs in the order of their numbers, without payload, result and history. A call may have to read many jobs
  /// that do not match the request, so it may take long even if it returns few jobs.
  virtual net::awaitable<std::vector<job_info>> list(list_request r) = 0;
  /// Counts the jobs of all known queues. The result is sorted by the names of the queues.
  virtual net::awaitable<std::vector<queue_count>> count() = 0;

  /// Waits for a change that may matter to a waiting caller: jobs were submitted, ended or cancelled.
  ///
  /// `seen` is the result of the previous call; in the first call it is 0. The result is a hint: changes of other
  /// processes may be noticed seconds later. Errors: errc::stopped. Cancellation: terminal, partial, total.
  virtual net::awaitable<std::uint64_t> changed(std::uint64_t seen) = 0;

  /// Ends every later call with errc::stopped, and also every running changed(). Other calls that have begun are
  /// carried out. Idempotent.
  virtual void stop() noexcept = 0;

  /// Where the jobs are stored: the path of a file, or a URL without its password.
  virtual std::string where() const = 0;
  /// The facts about the database that are known from the latest calls. Does not wait. Allocates.
  virtual store_facts facts() const { return {}; }
};

}  // namespace canigo::jobs
