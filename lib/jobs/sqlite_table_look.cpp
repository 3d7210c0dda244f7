// The functions of sqlite_table that read jobs: one job, a list of jobs, the counts.

#include "history.hpp"
#include "sqlite_table.hpp"
#include "sqlite_values.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace canigo::jobs::detail {

namespace {

constexpr auto last_state = static_cast<std::int64_t>(job_state::cancelled);

constexpr const char* look_at_job =
    "SELECT canigo_job.id, token, name, kind, priority, state, attempt, max_attempts, crashes, snoozes, created_at, "
    "run_at, lease_until, deadline, cancel_at, finished_at, unique_key, batch, after_batch, payload, result, history "
    "FROM canigo_job JOIN canigo_queue ON canigo_queue.id=queue WHERE canigo_job.id=?1";
// The payload, result and history are left out, because SQLite reads long ones from additional pages of the file.
constexpr const char* list_jobs =
    "SELECT canigo_job.id, token, name, kind, priority, state, attempt, max_attempts, crashes, snoozes, created_at, "
    "run_at, lease_until, deadline, cancel_at, finished_at, unique_key, batch, after_batch "
    "FROM canigo_job CROSS JOIN canigo_queue ON canigo_queue.id=queue "
    "WHERE canigo_job.id>?1 AND (?2='' OR name=?2) AND (?3<0 OR state=?3) AND (?5='' OR batch=?5) "
    "ORDER BY canigo_job.id LIMIT ?4";

job_info read_info(sqlite_statement& s) {
  const auto number = [&](int column, std::int64_t most) {
    return checked(s.integer(column), 0, most, "job " + std::to_string(s.integer(0)), s.name(column));
  };
  const auto count = [&](int column) { return static_cast<std::uint32_t>(number(column, INT32_MAX)); };
  return {.id = s.integer(0),
          .token = static_cast<std::uint64_t>(number(1, INT64_MAX)),
          .queue = s.text(2),
          .kind = s.text(3),
          .payload = {},
          .priority = static_cast<int>(number(4, most_priorities - 1)),
          .state = static_cast<job_state>(number(5, last_state)),
          .attempt = count(6),
          .max_attempts = count(7),
          .crashes = count(8),
          .snoozes = count(9),
          .created_at = instant_of(s.integer(10)),
          .run_at = instant_of(s.integer(11)),
          .lease_until = instant_at(s, 12),
          .deadline = instant_at(s, 13),
          .cancel_at = instant_at(s, 14),
          .finished_at = instant_at(s, 15),
          .unique_key = s.text(16),
          .batch = s.text(17),
          .after_batch = s.text(18)};
}

}  // namespace

std::optional<job_info> sqlite_table::look(job_id id) {
  auto& s = db_.sql(look_at_job);
  s.start(id);
  if (!s.next()) return std::nullopt;
  job_info info = read_info(s);
  const bool is_long = s.is_null(19);
  info.payload = s.text(19);
  info.result = s.text(20);
  info.history = decode_history(s.text(21));
  s.reset();
  if (is_long) info.payload = payload_of(id);
  return info;
}

std::vector<job_info> sqlite_table::list(const list_request& r) {
  std::vector<job_info> jobs;
  auto& s = db_.sql(list_jobs);
  s.start(r.after, r.queue, r.state ? number(*r.state) : -1, static_cast<std::int64_t>(r.limit), r.batch);
  while (s.next()) jobs.push_back(read_info(s));
  return jobs;
}

std::vector<queue_count> sqlite_table::count(instant now) {
  std::map<std::int64_t, queue_count> by_queue;
  auto& queues = db_.sql("SELECT id, name, paused_at FROM canigo_queue").start();
  while (queues.next()) by_queue[queues.integer(0)] = {.queue = queues.text(1), .is_paused = !queues.is_null(2)};
  constexpr auto most = static_cast<std::int64_t>(most_counted);
  const auto note = [&](queue_count& c, std::int64_t state, std::int64_t jobs, bool has_more) {
    const auto i = checked(state, 0, last_state, "a job of queue " + c.queue, "state");
    c.by_state[i] = static_cast<std::size_t>(jobs);
    c.has_more[i] = has_more;
  };
  // Each part of the query reads at most a fixed number of index entries. But if an earlier version of the library made
  // the file, the last part has no index and may read the whole table.
  auto& some = db_.sql(
      "SELECT queue, 1, count(*) FROM (SELECT queue FROM canigo_job INDEXED BY canigo_job_lease WHERE state=1 LIMIT "
      "?1) "
      "GROUP BY queue UNION ALL "
      "SELECT queue, 3, count(*) FROM (SELECT queue FROM canigo_job WHERE state>2 AND state=3 LIMIT ?1) GROUP BY queue "
      "UNION ALL "
      "SELECT queue, 4, count(*) FROM (SELECT queue FROM canigo_job WHERE state>2 AND state=4 LIMIT ?1) GROUP BY queue "
      "UNION ALL SELECT * FROM (SELECT queue, state, 1 FROM canigo_job WHERE state>2 AND state>4 LIMIT 1) "
      "UNION ALL SELECT * FROM (SELECT queue, state, 1 FROM canigo_job WHERE state<0 LIMIT 1)");
  some.start(most);
  std::int64_t of_state[5] = {};
  while (some.next()) {
    queue_count& c = by_queue[some.integer(0)];
    note(c, some.integer(1), some.integer(2), false);
    of_state[some.integer(1)] += some.integer(2);
  }
  std::vector<queue_count> counts;
  for (auto& [id, c] : by_queue) {
    for (int state = 0; state <= last_state; ++state) c.has_more[state] = of_state[state] >= most;
    auto& waiting = db_.sql(
        "SELECT count(*) FROM (SELECT 1 FROM canigo_job INDEXED BY canigo_job_ready WHERE state=0 AND queue=?1 "
        "LIMIT ?2)");
    const auto jobs = waiting.number(id, most).value_or(0);
    note(c, 0, jobs, jobs >= most);
    auto& ended = db_.sql(
        "SELECT count(*), coalesce(sum(state=2), 0) FROM (SELECT state FROM canigo_job INDEXED BY canigo_job_finish "
        "WHERE state>=2 AND queue=?1 ORDER BY finished_at DESC, state DESC LIMIT ?2)");
    ended.start(id, most);
    if (ended.next()) note(c, 2, ended.integer(1), ended.integer(0) >= most);
    ended.reset();
    for (int priority = 0; c.of(job_state::waiting) > 0 && priority < most_priorities; ++priority) {
      const auto first = first_run_at(id, priority);
      if (first) c.oldest = std::max(c.oldest, until(instant_of(*first), now));
    }
    counts.push_back(std::move(c));
  }
  std::ranges::sort(counts, {}, &queue_count::queue);
  return counts;
}

}  // namespace canigo::jobs::detail
