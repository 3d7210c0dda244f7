#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::jobs {

/// An instant of the store's clock, in UTC.
using instant = std::chrono::sys_time<std::chrono::microseconds>;

/// The number of a job. If a store keeps all commits, it never assigns a number twice. docs/jobs.md tells how a
/// failover of PostgreSQL may lose commits.
using job_id = std::int64_t;

/// The number of priority classes of every store: class 0 goes first, class 15 last.
inline constexpr int most_priorities = 16;
/// The max size of a payload, and of a result, in bytes.
inline constexpr std::size_t most_bytes = std::size_t{64} << 20;
/// The max length of the name of a queue, kind or batch, and of a unique key, in bytes.
inline constexpr std::size_t most_name = 255;
/// Up to this number, every store counts the jobs of one state exactly.
inline constexpr std::size_t most_counted = 100'000;
/// The max length of the text of a failure, in bytes. A store keeps only the beginning of a longer text.
inline constexpr std::size_t most_error_text = 1000;
/// The max number of entries in the history of a job. A store keeps the latest entries.
inline constexpr std::size_t most_events = 32;

/// The state of a job. A job whose delay has not ended, or that waits for another attempt, is in the state `waiting`,
/// too.
///
/// - claim() changes waiting to running, and complete() changes running to done.
/// - A failed attempt, snooze(), give_back() and a crash change running to waiting.
/// - The failure of the last attempt, a passed deadline and too many crashes make the job dead.
/// - cancel() makes the job cancelled: a waiting job immediately, a running job when its run ends without a result.
enum class job_state : std::uint8_t { waiting, running, done, dead, cancelled };

constexpr bool has_ended(job_state s) noexcept { return s >= job_state::done; }

constexpr std::string_view to_string(job_state s) noexcept {
  constexpr std::string_view names[] = {"waiting", "running", "done", "dead", "cancelled"};
  return s <= job_state::cancelled ? names[static_cast<std::size_t>(s)] : "?";
}

/// How long a unique key excludes other jobs with the same key.
enum class unique_scope : std::uint8_t {
  until_begun,  ///< the key is unique until the job is claimed for the first time
  until_ended,  ///< the key is unique until the job is done, dead or cancelled
  for_a_time,   ///< the key is unique for new_job::unique_for after the submission, even if the job has ended
};

/// A job to be submitted. Time spans are measured from the submission, by the store's clock.
struct new_job {
  std::string queue = "default";      ///< the name of the queue; 1 to most_name bytes
  std::string kind = {};              ///< the kind of the job, which selects the handler; 1 to most_name bytes
  std::string payload = {};           ///< the input for the handler: up to most_bytes bytes of any value
  int priority = 0;                   ///< priority class, 0 (goes first) … 15
  duration delay = duration::zero();  ///< time before the job can be claimed; 0 or more
  /// the instant at which the job can be claimed, instead of `delay`; years 1970 to 9999
  std::optional<instant> at = {};
  duration expires_in = duration::max();  ///< a job that still waits after this time is dead; more than 0; max: never
  std::uint32_t max_attempts = 25;        ///< max number of attempts, 1 to 1'000'000; crashes do not count
  std::string unique_key = {};            ///< the unique key: up to most_name bytes of any value; empty: not unique
  unique_scope scope = unique_scope::until_ended;
  duration unique_for = duration::zero();  ///< how long the key is unique with unique_scope::for_a_time; more than 0
  std::string batch = {};                  ///< the batch of the job, up to most_name bytes; empty: none
  /// The name of a batch for which the job waits; empty: none. The job can be claimed only after all jobs of that batch
  /// have ended, in any way. If no job of the batch waits or runs at the submission, the job can be claimed
  /// immediately. A job that waits for a batch must have no delay.
  std::string after_batch = {};
};

/// The result of submitting a job.
struct put_answer {
  job_id id = 0;        ///< the number of the new job, or of the existing job with the same unique key
  bool is_new = false;  ///< whether the job was added; false: a job with the same key exists and was not changed
};

/// The right to report the end of one run of a job. The token rises with every claim, so an old lease has no effect.
struct lease {
  job_id id = 0;
  std::uint64_t token = 0;
  bool operator==(const lease&) const = default;
};

/// A job that was claimed, and that the caller has to run.
struct claimed_job {
  jobs::lease lease;
  std::string queue;
  std::string kind;
  std::string payload;
  int priority = 0;
  std::uint32_t attempt = 0;  ///< number of this attempt; the first one is 1
  std::uint32_t max_attempts = 0;
  std::uint32_t crashes = 0;  ///< number of runs that ended by a crash of their process
  std::uint32_t snoozes = 0;
  instant run_at;                         ///< when the job was due
  duration expires_in = duration::max();  ///< time from the claim to the deadline; max: no deadline
};

/// An entry in the history of a job: a failure and its time.
struct event {
  enum class type : std::uint8_t {
    failed,   ///< an attempt failed
    crashed,  ///< a lease ended: the process crashed or was suspended
    expired,  ///< the deadline passed
  };
  instant at;
  type what = type::failed;
  std::uint32_t attempt = 0;
  std::string text = {};  ///< the text of the failure; empty if the entry has no text
  bool operator==(const event&) const = default;
};

constexpr std::string_view to_string(event::type t) noexcept {
  constexpr std::string_view names[] = {"failed", "crashed", "expired"};
  return t <= event::type::expired ? names[static_cast<std::size_t>(t)] : "?";
}

/// Everything that a store knows about a job.
struct job_info {
  job_id id = 0;
  std::uint64_t token = 0;
  std::string queue;
  std::string kind;
  std::string payload;
  int priority = 0;
  job_state state = job_state::waiting;
  std::uint32_t attempt = 0;
  std::uint32_t max_attempts = 0;
  std::uint32_t crashes = 0;
  std::uint32_t snoozes = 0;
  instant created_at;
  instant run_at;
  std::optional<instant> lease_until = {};  ///< the end of the lease, for a running job
  std::optional<instant> deadline = {};
  std::optional<instant> cancel_at = {};  ///< time of the cancellation, which extend() reports to a running job
  std::optional<instant> finished_at = {};
  std::string unique_key = {};  ///< the unique key that the job has now; empty: none
  std::string batch = {};       ///< the batch of the job, as in new_job
  /// the batch for which the job waits: see new_job::after_batch; during that wait, run_at is instant::max()
  std::string after_batch = {};
  std::string result = {};          ///< the result of a job that is done, or the progress of a running job
  std::vector<event> history = {};  ///< the latest most_events entries, oldest first
  bool operator==(const job_info&) const = default;
};

/// The number of jobs in a queue. A store may stop counting at most_counted jobs of a state. So the time for a count is
/// limited, even in a large table.
struct queue_count {
  std::string queue;
  bool is_paused = false;
  std::size_t by_state[5] = {};  ///< jobs in each job_state; `done`: only those of the last most_counted ended jobs
  bool has_more[5] = {};         ///< indexed by job_state; true: there may be more jobs than the number in by_state
  /// How long the earliest due job has been due; 0: no job is due.
  duration oldest = duration::zero();
  std::size_t of(job_state s) const noexcept { return by_state[static_cast<std::size_t>(s)]; }
  bool operator==(const queue_count&) const = default;
};

}  // namespace canigo::jobs
