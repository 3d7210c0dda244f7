// The functions of sqlite_table for runs of jobs: how runs end, continue, or are found to be lost.

#include "canigo/algorithms/backoff.hpp"

#include "history.hpp"
#include "sqlite_table.hpp"
#include "sqlite_values.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace canigo::jobs::detail {
namespace {

/// These functions keep a counter in its range, 0 to INT32_MAX, because another program may have written any number
/// into the database.
void count_up(std::uint32_t& n) noexcept { n += n < INT32_MAX ? 1 : 0; }
void count_down(std::uint32_t& n) noexcept { n -= n > 0 ? 1 : 0; }

void note(std::string& history, event e) {
  auto events = decode_history(history);
  add_event(events, std::move(e));
  history = encode(events);
}

}  // namespace

/// Frees the unique key of a job that has ended, unless the key is reserved until a later time.
void sqlite_table::free_key(job_id id, instant now) {
  db_.sql(
         "UPDATE canigo_job SET unique_key=NULL "
         "WHERE id=?1 AND unique_key IS NOT NULL AND (unique_until IS NULL OR unique_until<=?2)")
      .run(id, number(now));
}

verdict sqlite_table::complete(lease l, const std::string& result, instant now) {
  const auto changed = db_.sql(
                              "UPDATE canigo_job SET state=2, finished_at=?3, lease_until=NULL, result=?4 "
                              "WHERE id=?1 AND state=1 AND token=?2")
                           .run(l.id, static_cast<std::int64_t>(l.token), number(now), blob{result});
  if (changed == 0) return verdict::superseded;
  free_key(l.id, now);
  note_news();
  return verdict::accepted;
}

sqlite_table::run sqlite_table::read_run(sqlite_statement& s) {
  return {.id = s.integer(0),
          .attempt = s.count(1),
          .max_attempts = s.count(2),
          .crashes = s.count(3),
          .snoozes = s.count(4),
          .is_cancelled = !s.is_null(5),
          .run_at = instant_of(s.integer(6)),
          .history = s.text(7)};
}

/// Returns the running job whose last claim has this lease; nothing if there is none.
std::optional<sqlite_table::run> sqlite_table::held(lease l) {
  auto& s = db_.sql(
      "SELECT id, attempt, max_attempts, crashes, snoozes, cancel_at, run_at, history FROM canigo_job "
      "WHERE id=?1 AND state=1 AND token=?2");
  s.start(l.id, static_cast<std::int64_t>(l.token));
  if (!s.next()) return std::nullopt;
  run r = read_run(s);
  s.reset();
  return r;
}

/// Ends a run. The job itself may continue with another run.
void sqlite_table::end_run(run r, job_state s, instant now) {
  if (r.is_cancelled) s = job_state::cancelled;
  const bool is_over = has_ended(s);
  db_.sql(
         "UPDATE canigo_job SET state=?2, run_at=?3, attempt=?4, crashes=?5, snoozes=?6, finished_at=?7, "
         "history=?8, lease_until=NULL, result=NULL WHERE id=?1")
      .run(r.id, number(s), number(r.run_at), r.attempt, r.crashes, r.snoozes, number_unless(!is_over, now),
           r.history.empty() ? std::nullopt : std::optional{blob{r.history}});
  if (is_over) free_key(r.id, now);
  note_news();
}

verdict sqlite_table::fail(lease l, const std::string& text, duration retry_in, instant now) {
  auto r = held(l);
  if (!r) return verdict::superseded;
  note(r->history, {.at = now, .what = event::type::failed, .attempt = r->attempt, .text = text});
  const bool is_last = r->attempt >= r->max_attempts || retry_in == duration::max();
  if (!is_last && !r->is_cancelled) r->run_at = later(now, retry_in);
  end_run(std::move(*r), is_last ? job_state::dead : job_state::waiting, now);
  return verdict::accepted;
}

verdict sqlite_table::snooze(lease l, duration d, instant now) {
  auto r = held(l);
  if (!r) return verdict::superseded;
  count_down(r->attempt);
  count_up(r->snoozes);
  if (!r->is_cancelled) r->run_at = later(now, d);
  end_run(std::move(*r), job_state::waiting, now);
  return verdict::accepted;
}

verdict sqlite_table::give_back(lease l, instant now) {
  auto r = held(l);
  if (!r) return verdict::superseded;
  count_down(r->attempt);
  end_run(std::move(*r), job_state::waiting, now);
  return verdict::accepted;
}

extension sqlite_table::extend(lease l, duration d, const std::optional<std::string>& progress, instant now) {
  const auto token = static_cast<std::int64_t>(l.token);
  if (db_.sql("UPDATE canigo_job SET lease_until=?3 WHERE id=?1 AND state=1 AND token=?2")
          .run(l.id, token, number(later(now, d))) == 0) {
    return {};
  }
  if (progress) db_.sql("UPDATE canigo_job SET result=?2 WHERE id=?1").run(l.id, blob{*progress});
  auto& s = db_.sql("SELECT cancel_at, deadline FROM canigo_job WHERE id=?1");
  s.start(l.id);
  extension e{.verdict = verdict::accepted};
  if (s.next()) {
    e.is_cancelled = !s.is_null(0);
    if (const auto deadline = instant_at(s, 1)) e.expires_in = until(now, *deadline);
  }
  s.reset();
  return e;
}

std::vector<sqlite_table::run> sqlite_table::run_out(const char* sql, instant now) {
  std::vector<run> list;
  auto& s = db_.sql(sql);
  s.start(number(now), static_cast<std::int64_t>(reap_limit));
  while (s.next()) list.push_back(read_run(s));
  return list;
}

void sqlite_table::reap(instant now) {
  for (run& r : run_out("SELECT id, attempt, max_attempts, crashes, snoozes, cancel_at, run_at, history "
                        "FROM canigo_job INDEXED BY canigo_job_lease "
                        "WHERE state=1 AND lease_until<=?1 ORDER BY lease_until, id LIMIT ?2",
                        now)) {
    note(r.history, {.at = now, .what = event::type::crashed, .attempt = r.attempt, .text = {}});
    count_down(r.attempt);
    count_up(r.crashes);
    const bool is_poison = r.crashes >= policy_.most_crashes;
    const duration wait = policy_.after_crash.delay(r.crashes, random_ *= 0x5851F42D4C957F2D);
    if (!is_poison && !r.is_cancelled) r.run_at = later(now, wait);
    end_run(std::move(r), is_poison ? job_state::dead : job_state::waiting, now);
  }
  for (run& r : run_out("SELECT id, attempt, max_attempts, crashes, snoozes, cancel_at, run_at, history "
                        "FROM canigo_job INDEXED BY canigo_job_deadline "
                        "WHERE state=0 AND deadline<=?1 ORDER BY deadline, id LIMIT ?2",
                        now)) {
    expire(std::move(r), now);
  }
}

void sqlite_table::expire(run r, instant now) {
  note(r.history, {.at = now, .what = event::type::expired, .attempt = r.attempt, .text = {}});
  db_.sql("UPDATE canigo_job SET state=3, finished_at=?2, history=?3 WHERE id=?1")
      .run(r.id, number(now), blob{r.history});
  free_key(r.id, now);
  note_news();
}

void sqlite_table::end_leases_of(std::int64_t holder) {
  db_.sql("UPDATE canigo_job INDEXED BY canigo_job_lease SET lease_until=0 WHERE state=1 AND holder=?1").run(holder);
  if (::sqlite3_changes(db_.connection()) > 0) note_news();
}

}  // namespace canigo::jobs::detail
