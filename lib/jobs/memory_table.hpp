#pragma once

#include "canigo/jobs/job_info.hpp"
#include "canigo/jobs/store.hpp"

#include "table.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace canigo::jobs::detail {

/// Jobs in memory. The tests compare the other stores with this one.
class memory_table final : public table {
 public:
  explicit memory_table(const store_policy& p) : policy_{p} {}

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

 private:
  struct row : job_info {
    std::string key_as_put;
    unique_scope scope = unique_scope::until_ended;
    instant unique_until = instant::max();
  };
  using ready_place = std::tuple<std::string, int, instant, job_id>;
  using rows = std::map<job_id, row>;

  row* held(lease l);
  void enter(row& r);
  void leave(row& r);
  void begin(row& r, instant lease_until);
  void end(row& r, job_state s, instant now);
  void end_run(row& r, job_state s, instant run_at, instant now);
  void note(row& r, event::type what, const std::string& text, instant now);
  void reap(instant now);
  void wait_no_longer(const row& r);
  void drop_key(row& r);
  void settle(const std::string& batch, instant now);
  std::optional<job_id> holder_of(const std::string& key, instant now);
  void forget(rows::iterator r);

  const store_policy policy_;
  rows rows_;
  job_id last_id_ = 0;
  std::uint64_t random_ = 0x9E3779B97F4A7C15;
  std::map<std::string, bool> queues_;  // the name of each queue, and whether the queue is paused
  std::map<std::string, job_id> keys_;
  // Sorted indexes: ready_ and deadlines_ contain waiting jobs, leases_ running jobs, and ended_ jobs that have ended.
  std::set<ready_place> ready_;
  std::set<std::pair<instant, job_id>> deadlines_;  // the deadlines of waiting jobs
  std::set<std::pair<instant, job_id>> leases_;
  std::map<std::string, std::size_t> unended_;             // for each batch: the number of its jobs that have not ended
  std::map<std::string, std::set<job_id>> after_batches_;  // for each batch: the jobs that wait for its end
  std::set<std::tuple<std::string, instant, job_state, job_id>> ended_;
};

}  // namespace canigo::jobs::detail
