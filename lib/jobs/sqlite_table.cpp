#include "sqlite_table.hpp"

#include "sqlite_values.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

namespace canigo::jobs::detail {
namespace {

/// A payload longer than this is stored in a separate table, so that the rows stay short.
constexpr std::size_t most_inline = 4096;

std::optional<std::string_view> text_unless_empty(std::string_view text) noexcept {
  return text.empty() ? std::nullopt : std::optional{text};
}

}  // namespace

sqlite_table::sqlite_table(sqlite_db& db, const store_policy& p, std::int64_t holder)
    : db_{db}, policy_{p}, holder_{holder}, random_{static_cast<std::uint64_t>(holder) | 1U} {}

std::int64_t sqlite_table::number_of(const std::string& queue) {
  if (const auto found = db_.sql("SELECT id FROM canigo_queue WHERE name=?1").number(queue)) return *found;
  db_.sql("INSERT INTO canigo_queue(name) VALUES(?1)").run(queue);
  return ::sqlite3_last_insert_rowid(db_.connection());
}

/// Returns the job that has the unique key at this time; nothing if the key is free. If the key has expired, frees the
/// key first.
std::optional<job_id> sqlite_table::holder_of(const std::string& key, instant now) {
  auto& s = db_.sql("SELECT id, unique_until FROM canigo_job WHERE unique_key=?1");
  s.start(blob{key});
  if (!s.next()) return std::nullopt;
  const job_id id = s.integer(0);
  const bool is_over = !s.is_null(1) && s.integer(1) <= number(now);
  s.reset();
  if (!is_over) return id;
  db_.sql("UPDATE canigo_job SET unique_key=NULL WHERE id=?1").run(id);
  return std::nullopt;
}

std::vector<put_answer> sqlite_table::put_all(const std::vector<new_job>& list, instant now) {
  std::vector<put_answer> answers;
  answers.reserve(list.size());
  for (const new_job& j : list) {
    const bool is_unique = !j.unique_key.empty();
    if (is_unique) {
      if (const auto holder = holder_of(j.unique_key, now)) {
        answers.push_back({.id = *holder, .is_new = false});
        continue;
      }
    }
    const bool is_long = j.payload.size() > most_inline;
    const auto key = is_unique ? std::optional{blob{j.unique_key}} : std::nullopt;
    db_.sql(
           "INSERT INTO canigo_job(queue, priority, run_at, created_at, max_attempts, deadline, unique_key, "
           "unique_home, unique_scope, unique_until, kind, payload, batch, after_batch) "
           "VALUES(?1,?2,?3,?4,?5,?6,?7,?7,?8,?9,?10,?11,?12,?13)")
        .run(number_of(j.queue), j.priority, number(due_of(j, now)), number(now), j.max_attempts,
             number_unless(j.expires_in == duration::max(), later(now, j.expires_in)), key, static_cast<int>(j.scope),
             number_unless(!is_unique || j.scope != unique_scope::for_a_time, later(now, j.unique_for)), j.kind,
             is_long ? std::nullopt : std::optional{blob{j.payload}}, text_unless_empty(j.batch),
             text_unless_empty(j.after_batch));
    const job_id id = ::sqlite3_last_insert_rowid(db_.connection());
    if (is_long) db_.sql("INSERT INTO canigo_body(id, payload) VALUES(?1,?2)").run(id, blob{j.payload});
    answers.push_back({.id = id, .is_new = true});
    note_news();
  }
  for (const new_job& j : list) {
    if (j.after_batch.empty()) continue;
    // Makes the job claimable now if the batch that it waits for has already ended. When the last job of a batch ends
    // later, a trigger does the same.
    db_.sql(
           "UPDATE canigo_job SET run_at=?2 WHERE state=0 AND after_batch=?1 AND run_at=9223372036854775807 AND NOT "
           "EXISTS (SELECT 1 FROM canigo_job WHERE state<2 AND batch=?1)")
        .run(j.after_batch, number(now));
  }
  return answers;
}

std::string sqlite_table::payload_of(job_id id) {
  auto& s = db_.sql("SELECT payload FROM canigo_body WHERE id=?1");
  s.start(id);
  std::string payload;
  if (s.next()) payload = s.text(0);
  s.reset();
  return payload;
}

std::vector<claimed_job> sqlite_table::claim(const claim_request& r, instant now) {
  reap(now);
  std::vector<claimed_job> claimed;
  const auto queue = db_.sql("SELECT id FROM canigo_queue WHERE name=?1 AND paused_at IS NULL").number(r.queue);
  if (!queue) return claimed;
  static const std::string of_due =
      "SELECT id, token, attempt+1, max_attempts, crashes, snoozes, run_at, deadline, kind, payload, unique_scope, "
      "history FROM canigo_job INDEXED BY canigo_job_ready WHERE state=0 AND queue=?1 AND priority=?2 AND run_at<=?3 "
      "AND " +
      is_sound + " ORDER BY run_at, id LIMIT ?4";
  auto& due = db_.sql(of_due.c_str());
  for (int priority = 0; priority < most_priorities; ++priority) {
    for (bool has_more = true; has_more && claimed.size() < r.limit;) {
      has_more = false;
      std::vector<claimed_job> found;
      std::vector<run> expired;
      std::vector<job_id> begun;           // the jobs whose unique keys become free when they are claimed
      std::vector<std::size_t> with_body;  // the indexes in `found` of the jobs whose payload is in the separate table
      due.start(*queue, priority, number(now),
                static_cast<std::int64_t>(std::min<std::size_t>(r.limit - claimed.size(), 1 << 20)));
      while (due.next()) {
        const job_id id = due.integer(0);
        const auto deadline = instant_at(due, 7);
        if (deadline && *deadline <= now) {
          expired.push_back(
              {.id = id, .attempt = due.count(2) - 1, .run_at = instant_of(due.integer(6)), .history = due.text(11)});
          has_more = true;
          continue;
        }
        if (due.integer(10) == static_cast<int>(unique_scope::until_begun)) begun.push_back(id);
        if (due.is_null(9)) with_body.push_back(found.size());
        // A loss of power may undo a claim, and with it the new token of the job. So a token is at least the current
        // time: then no token is used twice.
        const std::int64_t token = std::max(due.integer(1) + 1, number(now));
        found.push_back({.lease = {id, static_cast<std::uint64_t>(token)},
                         .queue = r.queue,
                         .kind = due.text(8),
                         .payload = due.text(9),
                         .priority = priority,
                         .attempt = due.count(2),
                         .max_attempts = due.count(3),
                         .crashes = due.count(4),
                         .snoozes = due.count(5),
                         .run_at = instant_of(due.integer(6)),
                         .expires_in = deadline ? until(now, *deadline) : duration::max()});
      }
      for (run& e : expired) expire(std::move(e), now);
      for (const job_id id : begun) db_.sql("UPDATE canigo_job SET unique_key=NULL WHERE id=?1").run(id);
      for (const std::size_t i : with_body) found[i].payload = payload_of(found[i].lease.id);
      for (claimed_job& j : found) {
        // A single UPDATE … RETURNING for all jobs is not used: it would create a temporary table for each call, and
        // would not guarantee an order.
        db_.sql(
               "UPDATE canigo_job SET state=1, attempt=attempt+1, token=?4, lease_until=?2, holder=?3 "
               "WHERE id=?1 AND state=0")
            .run(j.lease.id, number(later(now, r.lease)), holder_, static_cast<std::int64_t>(j.lease.token));
        claimed.push_back(std::move(j));
      }
    }
  }
  return claimed;
}

cancel_answer sqlite_table::cancel(job_id id, instant now) {
  const auto state = db_.sql("SELECT state FROM canigo_job WHERE id=?1").number(id);
  if (!state) return cancel_answer::unknown;
  if (has_ended(static_cast<job_state>(*state))) return cancel_answer::ended;
  note_news();
  db_.sql("UPDATE canigo_job SET cancel_at=coalesce(cancel_at,?2) WHERE id=?1").run(id, number(now));
  if (*state == number(job_state::running)) return cancel_answer::marked;
  db_.sql("UPDATE canigo_job SET state=4, finished_at=?2 WHERE id=?1").run(id, number(now));
  free_key(id, now);
  return cancel_answer::cancelled;
}

requeue_answer sqlite_table::requeue(job_id id, instant now) {
  using type = requeue_answer::type;
  auto& s = db_.sql("SELECT state, unique_home, unique_scope FROM canigo_job WHERE id=?1");
  s.start(id);
  if (!s.next()) return {.what = type::unknown};
  const auto state = static_cast<job_state>(s.integer(0));
  const std::string key = s.text(1);
  const bool is_for_a_time = s.integer(2) == static_cast<int>(unique_scope::for_a_time);
  s.reset();
  if (!has_ended(state)) return {.what = type::unended};
  if (!key.empty()) {
    if (const auto holder = holder_of(key, now); holder && *holder != id) {
      return {.what = type::key_taken, .holder = *holder};
    }
    if (!is_for_a_time) db_.sql("UPDATE canigo_job SET unique_key=unique_home WHERE id=?1").run(id);
  }
  db_.sql(
         "UPDATE canigo_job SET state=0, run_at=?2, max_attempts=max(max_attempts, attempt+1), crashes=0, "
         "cancel_at=NULL, finished_at=NULL, result=NULL, deadline=CASE WHEN deadline>?2 THEN deadline END WHERE id=?1")
      .run(id, number(now));
  note_news();
  return {.what = type::requeued};
}

void sqlite_table::forget(job_id id) {
  db_.sql("DELETE FROM canigo_job WHERE id=?1").run(id);
  db_.sql("DELETE FROM canigo_body WHERE id=?1").run(id);
}

remove_answer sqlite_table::remove(job_id id, instant now) {
  const auto state = db_.sql("SELECT state FROM canigo_job WHERE id=?1").number(id);
  if (!state) return remove_answer::unknown;
  if (*state == number(job_state::running)) return remove_answer::running;
  // A job of a batch gets its end state before it is deleted, because this change of state calls a trigger. If the
  // batch has ended, the trigger makes the jobs claimable that wait for the batch.
  db_.sql("UPDATE canigo_job SET state=4, finished_at=?2 WHERE id=?1 AND state=0 AND batch IS NOT NULL")
      .run(id, number(now));
  forget(id);
  note_news();
  return remove_answer::removed;
}

std::size_t sqlite_table::trim(const trim_request& r, instant now) {
  const auto queue = db_.sql("SELECT id FROM canigo_queue WHERE name=?1").number(r.queue);
  if (!queue) return 0;
  std::int64_t before = INT64_MIN;  // jobs that ended at this time or earlier are deleted
  if (r.older_than != duration::max()) {
    before = number(now) - std::chrono::ceil<std::chrono::microseconds>(r.older_than).count();
  }
  std::int64_t surplus = 0;  // this many of the oldest ended jobs are deleted, even if they ended after `before`
  if (r.keep != SIZE_MAX) {
    const auto there =
        db_.sql("SELECT count(*) FROM canigo_job INDEXED BY canigo_job_finish WHERE state>=2 AND queue=?1")
            .number(*queue)
            .value_or(0);
    surplus = std::max<std::int64_t>(0, there - static_cast<std::int64_t>(r.keep));
  }
  std::vector<job_id> doomed;
  auto& s = db_.sql(
      "SELECT id, finished_at FROM canigo_job INDEXED BY canigo_job_finish "
      "WHERE state>=2 AND queue=?1 ORDER BY finished_at, state, id LIMIT ?2");
  s.start(*queue, static_cast<std::int64_t>(std::min<std::size_t>(r.limit, 1 << 20)));
  while (s.next()) {
    if (s.integer(1) > before && static_cast<std::int64_t>(doomed.size()) >= surplus) break;
    doomed.push_back(s.integer(0));
  }
  s.reset();
  for (const job_id id : doomed) forget(id);
  return doomed.size();
}

void sqlite_table::pause(const std::string& queue, bool is_paused, instant now) {
  db_.sql("UPDATE canigo_queue SET paused_at=?2 WHERE id=?1").run(number_of(queue), number_unless(!is_paused, now));
  note_news();
}

std::optional<std::int64_t> sqlite_table::first_run_at(std::int64_t queue, int priority) {
  static const std::string sql =
      "SELECT run_at FROM canigo_job INDEXED BY canigo_job_ready WHERE state=0 AND queue=?1 AND priority=?2 AND " +
      is_sound + " ORDER BY run_at LIMIT 1";
  return db_.sql(sql.c_str()).number(queue, priority);
}

instant sqlite_table::next_due(const std::string& queue) {
  std::int64_t first = number(instant::max());
  const auto consider = [&](std::optional<std::int64_t> t) {
    if (t) first = std::min(first, *t);
  };
  consider(db_.sql("SELECT min(lease_until) FROM canigo_job INDEXED BY canigo_job_lease WHERE state=1").number());
  consider(db_.sql("SELECT min(deadline) FROM canigo_job INDEXED BY canigo_job_deadline "
                   "WHERE state=0 AND deadline IS NOT NULL")
               .number());
  const auto known = db_.sql("SELECT id FROM canigo_queue WHERE name=?1 AND paused_at IS NULL").number(queue);
  for (int priority = 0; known && priority < most_priorities; ++priority) {
    consider(first_run_at(*known, priority));
  }
  return instant_of(first);
}

}  // namespace canigo::jobs::detail
