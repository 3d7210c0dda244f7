#include "sqlite_table.hpp"

#include "canigo/backoff.hpp"

#include "history.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

namespace canigo::jobs::detail {
namespace {

/// A longer payload lies in a table of its own, so that the rows stay short.
constexpr std::size_t most_inline = 4096;

constexpr auto last_state = static_cast<std::int64_t>(job_state::cancelled);

std::int64_t number(instant t) noexcept { return t.time_since_epoch().count(); }
std::int64_t number(job_state s) noexcept { return static_cast<std::int64_t>(s); }
instant instant_of(std::int64_t n) noexcept { return instant{std::chrono::microseconds{n}}; }
std::optional<std::string_view> text_unless_empty(std::string_view text) noexcept {
  return text.empty() ? std::nullopt : std::optional{text};
}
std::optional<std::int64_t> number_unless(bool is_none, instant t) noexcept {
  return is_none ? std::nullopt : std::optional{number(t)};
}

/// The number may be one that another program wrote.
void count_up(std::uint32_t& n) noexcept { n += n < INT32_MAX ? 1 : 0; }
void count_down(std::uint32_t& n) noexcept { n -= n > 0 ? 1 : 0; }

std::optional<instant> instant_at(const sqlite_statement& s, int column) noexcept {
  return s.is_null(column) ? std::nullopt : std::optional{instant_of(s.integer(column))};
}

}  // namespace

sqlite_table::sqlite_table(sqlite_db& db, const store_policy& p, std::int64_t holder)
    : db_{db}, policy_{p}, holder_{holder}, random_{static_cast<std::uint64_t>(holder) | 1U} {}

std::int64_t sqlite_table::number_of(const std::string& queue) {
  if (const auto found = db_.sql("SELECT id FROM canigo_queue WHERE name=?1").number(queue)) return *found;
  db_.sql("INSERT INTO canigo_queue(name) VALUES(?1)").run(queue);
  return ::sqlite3_last_insert_rowid(db_.connection());
}

/// The job that has the key at this time. A key whose time is over is free from here on.
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
    // The trigger does the same when a job ends.
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
      std::vector<job_id> begun;           // their keys are free from here on
      std::vector<std::size_t> with_body;  // places in `found`
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
        // A loss of power may take claims back. The clock keeps a token from being given again.
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
        // Not one UPDATE … RETURNING: it makes a temporary table for each call, and promises no order.
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

/// Frees the key of a job that has ended, unless it is taken for a time that is not over.
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

/// The job of the last claim, if it runs still.
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

/// The end of a run that may not be that of the job.
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

namespace {

void note(std::string& history, event e) {
  auto events = decode_history(history);
  add_event(events, std::move(e));
  history = encode(events);
}

}  // namespace

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
  // A batch waits for what has not ended.
  db_.sql("UPDATE canigo_job SET state=4, finished_at=?2 WHERE id=?1 AND state=0 AND batch IS NOT NULL")
      .run(id, number(now));
  forget(id);
  note_news();
  return remove_answer::removed;
}

std::size_t sqlite_table::trim(const trim_request& r, instant now) {
  const auto queue = db_.sql("SELECT id FROM canigo_queue WHERE name=?1").number(r.queue);
  if (!queue) return 0;
  std::int64_t before = INT64_MIN;  // so long ago, at the latest, ended what goes
  if (r.older_than != duration::max()) {
    before = number(now) - std::chrono::ceil<std::chrono::microseconds>(r.older_than).count();
  }
  std::int64_t surplus = 0;  // so many of the oldest go in any case
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

namespace {

constexpr const char* look_at_job =
    "SELECT canigo_job.id, token, name, kind, priority, state, attempt, max_attempts, crashes, snoozes, created_at, "
    "run_at, lease_until, deadline, cancel_at, finished_at, unique_key, batch, after_batch, payload, result, history "
    "FROM canigo_job JOIN canigo_queue ON canigo_queue.id=queue WHERE canigo_job.id=?1";
// The columns that are left out would be read from further pages of the file.
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
  auto& queues = db_.sql("SELECT id, name, paused_at FROM canigo_queue");
  queues.start();
  while (queues.next()) by_queue[queues.integer(0)] = {.queue = queues.text(1), .is_paused = !queues.is_null(2)};
  constexpr auto most = static_cast<std::int64_t>(most_counted);
  const auto note = [&](queue_count& c, std::int64_t state, std::int64_t jobs, bool has_more) {
    const auto i = checked(state, 0, last_state, "a job of queue " + c.queue, "state");
    c.by_state[i] = static_cast<std::size_t>(jobs);
    c.has_more[i] = has_more;
  };
  // No part reads more than a number of entries of an index. Files of earlier versions have no index for the last one.
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

void sqlite_table::end_leases_of(std::int64_t holder) {
  db_.sql("UPDATE canigo_job INDEXED BY canigo_job_lease SET lease_until=0 WHERE state=1 AND holder=?1").run(holder);
  if (::sqlite3_changes(db_.connection()) > 0) note_news();
}

}  // namespace canigo::jobs::detail
