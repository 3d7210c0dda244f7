#pragma once

#include "canigo/jobs/job_info.hpp"
#include "canigo/jobs/store.hpp"

#include "sqlite_db.hpp"
#include "table.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace canigo::jobs::detail {

/// Jobs in an SQLite file. The caller begins and ends the transactions.
class sqlite_table final : public table {
 public:
  /// `holder`: a number that identifies this process among those that have the file open.
  sqlite_table(sqlite_db& db, const store_policy& p, std::int64_t holder);

  std::vector<put_answer> put_all(const std::vector<new_job>& list, instant now) override;
  std::vector<claimed_job> claim(const claim_request& r, instant now) override;
  verdict complete(lease l, const std::string& result, instant now) override;
  verdict fail(lease l, const std::string& text, duration retry_in, instant now) override;
  verdict snooze(lease l, duration d, instant now) override;
  verdict give_back(lease l, instant now) override;
  extension extend(lease l, duration d, const std::optional<std::string>& progress, instant now) override;
  cancel_answer cancel(job_id id, instant now) override;
  requeue_answer requeue(job_id id, instant now) override;
  remove_answer remove(job_id id, instant now) override;
  std::size_t trim(const trim_request& r, instant now) override;
  void pause(const std::string& queue, bool is_paused, instant now) override;
  instant next_due(const std::string& queue) override;
  std::optional<job_info> look(job_id id) override;
  std::vector<job_info> list(const list_request& r) override;
  std::vector<queue_count> count(instant now) override;

  /// Ends all leases of a process that has ended. `holder`: the number of that process.
  void end_leases_of(std::int64_t holder);

 private:
  /// A running job, or a job whose lease or deadline has expired, with everything that determines its next state.
  struct run {
    job_id id = 0;
    job_state state = job_state::running;
    std::uint32_t attempt = 0;
    std::uint32_t max_attempts = 0;
    std::uint32_t crashes = 0;
    std::uint32_t snoozes = 0;
    bool is_cancelled = false;
    instant run_at = {};
    std::string history = {};
  };

  std::optional<run> held(lease l);
  std::vector<run> run_out(const char* sql, instant now);
  run read_run(sqlite_statement& s);
  void end_run(run r, job_state s, instant now);
  void free_key(job_id id, instant now);
  void reap(instant now);
  void expire(run r, instant now);
  std::int64_t number_of(const std::string& queue);
  std::optional<job_id> holder_of(const std::string& key, instant now);
  std::string payload_of(job_id id);
  void forget(job_id id);
  std::optional<std::int64_t> first_run_at(std::int64_t queue, int priority);

  sqlite_db& db_;
  const store_policy policy_;
  const std::int64_t holder_;
  std::uint64_t random_;
};

}  // namespace canigo::jobs::detail
