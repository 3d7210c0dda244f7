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

/// An instant of the store's own clock, in UTC.
using instant = std::chrono::sys_time<std::chrono::microseconds>;

/// The number of a job. A store never gives a number twice, as long as it keeps what it acknowledged: see docs/jobs.md
/// for a failover of PostgreSQL that loses commits.
using job_id = std::int64_t;

/// The classes of every store: 0 (first) … 15.
inline constexpr int most_priorities = 16;
/// The longest payload and the longest result, in bytes.
inline constexpr std::size_t most_bytes = std::size_t{64} << 20;
/// The longest name of a queue or kind, and the longest key of a unique job, in bytes.
inline constexpr std::size_t most_name = 255;
/// The number of jobs of one state up to which every store counts exactly.
inline constexpr std::size_t most_counted = 100'000;
/// How many bytes of the text of a failure a store keeps: the first ones.
inline constexpr std::size_t most_error_text = 1000;
/// How many entries of the history of a job a store keeps: the last ones.
inline constexpr std::size_t most_events = 32;

/// The state of a job. A job that waits for its time or for another attempt is `waiting`, too.
///
///     waiting ──claim──▶ running ──complete──▶ done
///        ▲                  │
///        └─fail, snooze,────┤ or, for the last time, by a deadline, or by too many crashes ──▶ dead
///          give_back, crash └─cancel──▶ cancelled
enum class job_state : std::uint8_t { waiting, running, done, dead, cancelled };

constexpr bool has_ended(job_state s) noexcept { return s >= job_state::done; }

constexpr std::string_view to_string(job_state s) noexcept {
  constexpr std::string_view names[] = {"waiting", "running", "done", "dead", "cancelled"};
  return s <= job_state::cancelled ? names[static_cast<std::size_t>(s)] : "?";
}

/// For how long no other job can have the same key.
enum class unique_scope : std::uint8_t {
  until_begun,  ///< until the job is claimed for the first time
  until_ended,  ///< until it is done, dead or cancelled
  for_a_time,   ///< for the time new_job::unique_for from the put on, even if the job has ended
};

/// A job as it is handed in. Spans count from the put on, by the store's clock.
struct new_job {
  std::string queue = "default";          ///< 1 to most_name bytes
  std::string kind = {};                  ///< names the handler; 1 to most_name bytes
  std::string payload = {};               ///< any bytes, up to most_bytes
  int priority = 0;                       ///< class, 0 (first) … 15
  duration delay = duration::zero();      ///< before it can be claimed; 0 or more
  std::optional<instant> at = {};         ///< when it can be claimed, instead of a delay; 1970 to 9999
  duration expires_in = duration::max();  ///< a job that still waits then is dead; more than 0; max: never
  std::uint32_t max_attempts = 25;        ///< 1 to 1'000'000; crashes do not count
  std::string unique_key = {};            ///< any bytes, up to most_name; empty: not unique
  unique_scope scope = unique_scope::until_ended;
  duration unique_for = duration::zero();  ///< for unique_scope::for_a_time; more than 0
  std::string batch = {};                  ///< the batch that the job belongs to, up to most_name bytes; empty: none
  /// The name of a batch. The job can be claimed after all jobs of that batch have ended, in whatever way. It must have
  /// no delay. If no job of that batch waits or runs when this job is put, it does not wait. Empty: it waits for none.
  std::string after_batch = {};
};

/// The answer to a job that was handed in.
struct put_answer {
  job_id id = 0;        ///< the id of the new job, or of the job that has its unique key
  bool is_new = false;  ///< false: a job with the same key is there, and was left as it is
};

/// The right to end one run of a job. The token rises with every claim, so an old lease has no effect.
struct lease {
  job_id id = 0;
  std::uint64_t token = 0;
  bool operator==(const lease&) const = default;
};

/// A job that the caller is to run.
struct claimed_job {
  jobs::lease lease;
  std::string queue;
  std::string kind;
  std::string payload;
  int priority = 0;
  std::uint32_t attempt = 0;  ///< of this run; the first one is 1
  std::uint32_t max_attempts = 0;
  std::uint32_t crashes = 0;  ///< runs that ended with their process
  std::uint32_t snoozes = 0;
  instant run_at;                         ///< when it fell due
  duration expires_in = duration::max();  ///< from the claim on; max: no deadline
};

/// An entry in the history of a job: a failure, and when.
struct event {
  enum class type : std::uint8_t {
    failed,   ///< an attempt failed
    crashed,  ///< a lease ran out: the process is gone, or stood still
    expired,  ///< the deadline passed
  };
  instant at;
  type what = type::failed;
  std::uint32_t attempt = 0;
  std::string text = {};  ///< of the failure
  bool operator==(const event&) const = default;
};

constexpr std::string_view to_string(event::type t) noexcept {
  constexpr std::string_view names[] = {"failed", "crashed", "expired"};
  return t <= event::type::expired ? names[static_cast<std::size_t>(t)] : "?";
}

/// All that a store knows about a job.
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
  std::optional<instant> lease_until = {};  ///< while it runs
  std::optional<instant> deadline = {};
  std::optional<instant> cancel_at = {};  ///< when it was cancelled; a job that runs is told of it
  std::optional<instant> finished_at = {};
  std::string unique_key = {};      ///< the key that it has now; empty: none
  std::string batch = {};           ///< as in new_job
  std::string after_batch = {};     ///< as in new_job; run_at is instant::max() while it waits for the batch
  std::string result = {};          ///< of a job that is done; of one that runs: its progress
  std::vector<event> history = {};  ///< the last most_events entries, oldest first
  bool operator==(const job_info&) const = default;
};

/// How many jobs a queue has. A store may count to most_counted only, so that a large table costs no more.
struct queue_count {
  std::string queue;
  bool is_paused = false;
  std::size_t by_state[5] = {};  ///< index: job_state; done: only among the last jobs that ended
  bool has_more[5] = {};         ///< index: job_state; by_state is a lower bound
  /// How long the first of the jobs that wait has been due; 0: none is due.
  duration oldest = duration::zero();
  std::size_t of(job_state s) const noexcept { return by_state[static_cast<std::size_t>(s)]; }
  bool operator==(const queue_count&) const = default;
};

}  // namespace canigo::jobs
