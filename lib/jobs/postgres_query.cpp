#include "postgres_query.hpp"

#include "canigo/algorithms/backoff.hpp"

#include "table.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace canigo::jobs::detail {
namespace {

/// Returns SQL for the time `span` microseconds from now. The SQL calls now() without a schema, so that tests can put
/// another now() into their search path.
std::string after(const std::string& span) { return "now() + " + span + "::int8 * interval '1 microsecond'"; }
std::string after_or_never(const std::string& span) { return "coalesce(" + after(span) + ", 'infinity')"; }

/// Returns SQL that frees the unique key of a job if the condition `ends` is true. But a key that is reserved until a
/// later time stays.
std::string key_if_ended(const std::string& ends) {
  return "unique_key = CASE WHEN NOT (" + ends + ") OR unique_until > now() THEN unique_key END";
}

/// Returns SQL that appends an entry to the history, in the format of encode(), and drops the oldest entries beyond
/// most_events.
std::string history_with(const std::string& letter, const std::string& text) {
  // In SQL, || appends an element only to an array of one dimension. So a history with more dimensions is replaced by
  // an empty array.
  return "history = (CASE WHEN array_ndims(history) > 1 THEN '{}' ELSE history END || (convert_to((extract(epoch FROM "
         "now()) * 1000000)::int8 || ' ' || attempt || ' " +
         letter + " ', 'UTF8') || " + text + "))[greatest(1, cardinality(history) - " +
         std::to_string(most_events - 2) + "):]";
}

/// Returns SQL that selects the jobs which the CTE `part` has found. The SQL uses an array instead of a join. With a
/// join, the server would assume that a tenth of all rows match. Then a claim with many waiting jobs would read all
/// rows.
std::string of_found(const std::string& part) { return " WHERE id = ANY(ARRAY(SELECT id FROM " + part + "))"; }

/// Returns SQL that increments a counter column. The sum can't overflow, even if another program has set the column to
/// the largest value of its type.
std::string one_more(const std::string& c) { return c + " = least(" + c + ", 2147483646) + 1, "; }
std::string one_less(const std::string& c) { return c + " = greatest(" + c + ", 1) - 1, "; }

/// The following constants are SQL texts that several statements use.
const std::string ends_run = "lease_until = NULL, result = NULL, ";
const std::string of_lease = " WHERE id = $1::int8 AND state = 1 AND token = $2::int8 RETURNING 1";
/// Returns SQL that sends a notification to the processes that wait for jobs. The SQL also sets the lock timeout for
/// the commit to `most` milliseconds. Commits with a notification wait for each other. So a commit may wait for a long
/// time even if no other client has left a transaction open.
std::string tell_and_wait(const std::string& most) {
  return "SELECT pg_notify('canigo_jobs', ''), set_config('lock_timeout', " + most + "::text, true)";
}
std::string if_changed_tell_and_wait(const std::string& most) {
  return " " + tell_and_wait(most) + " FROM changed LIMIT 1";
}

/// Returns SQL that sets options that are valid only in the present transaction. Parameters: $1 lock_timeout, $2
/// statement_timeout, $3 whether the transaction must be durable.
std::string set_up_text() {
  const auto set = [](const std::string& name, const std::string& value) {
    return ", set_config('" + name + "', " + value + ", true)";
  };
  const std::string commit = "current_setting('synchronous_commit')";
  return "SELECT pg_backend_pid()" + set("lock_timeout", "$1::text") +
         set("statement_timeout", "coalesce($2::text, current_setting('statement_timeout'))") +
         // jit is off, because compiling a statement takes longer than running any of the statements
         set("jit", "'off'") +
         // A put must be durable when it returns, even if the server's default is synchronous_commit = off.
         set("synchronous_commit",
             "CASE WHEN $3::int8 = 0 THEN 'off' WHEN " + commit + " = 'off' THEN 'on' ELSE " + commit + " END");
}

std::string reap_text() {
  const std::string ends = "cancel_at IS NOT NULL OR crashes >= $1::int8 - 1";
  const std::string first = "($3::int8[])[1 + greatest(0, least(crashes, cardinality($3::int8[]) - 1))]";
  const std::string last = "($4::int8[])[1 + greatest(0, least(crashes, cardinality($4::int8[]) - 1))]";
  return "WITH gone AS (SELECT id FROM canigo_job WHERE state = 1 AND lease_until <= now() ORDER BY lease_until, id "
         "LIMIT $2::int8 FOR UPDATE SKIP LOCKED), changed AS (UPDATE canigo_job SET " +
         ends_run + one_more("crashes") + one_less("attempt") + "state = CASE WHEN cancel_at IS NOT NULL THEN 4 WHEN " +
         ends + " THEN 3 ELSE 0 END, run_at = CASE WHEN " + ends + " THEN run_at ELSE now() + (" + first +
         " + random() * (" + last + " - " + first + ")) * interval '1 microsecond' END, finished_at = CASE WHEN " +
         ends + " THEN now() END, " + key_if_ended(ends) + ", " + history_with("c", "''") + of_found("gone") +
         " RETURNING 1)" + if_changed_tell_and_wait("$5");
}

std::string expire_text() {
  return "WITH gone AS (SELECT id FROM canigo_job WHERE state = 0 AND deadline <= now() ORDER BY deadline, id "
         "LIMIT $1::int8 FOR UPDATE SKIP LOCKED), changed AS (UPDATE canigo_job SET state = 3, finished_at = now(), " +
         key_if_ended("true") + ", " + history_with("e", "''") + of_found("gone") + " RETURNING 1)" +
         if_changed_tell_and_wait("$2");
}

std::string put_text() {
  // A running job with the same key is not locked, because the lock would block the renewal of its lease.
  return "WITH known AS (INSERT INTO canigo_queue(name) VALUES($1::text) ON CONFLICT DO NOTHING), "
         "held AS MATERIALIZED (SELECT id FROM canigo_job WHERE unique_key = $8::bytea AND state = 1), "
         "put AS (INSERT INTO canigo_job(queue, kind, payload, priority, run_at, deadline, max_attempts, unique_key, "
         "unique_home, unique_scope, unique_until, created_at, batch, after_batch) SELECT $1::text, $2::text, "
         "$3::bytea, $4::int8, CASE WHEN $13::text IS NULL THEN coalesce(timestamptz 'epoch' + $11::int8 * interval "
         "'1 microsecond', " +
         after_or_never("$5") + ") ELSE 'infinity' END, " + after("$6") +
         ", $7::int8, $8::bytea, $8::bytea, $9::int8, " + after("$10") +
         ", now(), $12::text, $13::text WHERE NOT EXISTS (SELECT 1 FROM held) ON CONFLICT (unique_key) WHERE "
         "unique_key IS NOT NULL "
         "DO UPDATE SET unique_key = excluded.unique_key "
         // xmax is 0 in a new row. In an existing row it is this transaction's number, because this transaction has
         // locked the row.
         "RETURNING id, xmax = 0 AS is_new) SELECT id, is_new FROM put UNION ALL SELECT id, false FROM held";
}

/// Returns SQL that puts several jobs. RETURNING guarantees no order. So the column `holder`, which is unused until the
/// job is claimed, stores the job's index in the array parameters.
std::string put_many_text() {
  return "WITH known AS (INSERT INTO canigo_queue(name) SELECT DISTINCT unnest($1::text[]) ORDER BY 1 ON CONFLICT DO "
         "NOTHING) INSERT INTO canigo_job(queue, kind, payload, priority, run_at, deadline, max_attempts, created_at, "
         "batch, holder) SELECT queue, kind, payload, priority, coalesce(timestamptz 'epoch' + at * interval "
         "'1 microsecond', " +
         after_or_never("delay") + "), " + after("expiry") +
         ", attempts, now(), batch, place FROM unnest($1::text[], $2::text[], $3::bytea[], $4::int8[], $5::int8[], "
         "$6::int8[], $7::int8[], $8::int8[], $9::text[]) WITH ORDINALITY AS j(queue, kind, payload, priority, delay, "
         "expiry, attempts, at, batch, place) RETURNING id, holder";
}

/// Returns SQL that ends several runs. It uses arrays instead of a join. With a join, the server would choose a query
/// plan for many jobs.
std::string complete_many_text() {
  const std::string place = "array_position($1::int8[], id)";
  return "UPDATE canigo_job SET state = 2, finished_at = now(), lease_until = NULL, result = ($3::bytea[])[" + place +
         "], " + key_if_ended("true") + " WHERE id = ANY($1::int8[]) AND state = 1 AND token = ($2::int8[])[" + place +
         "] RETURNING id";
}

/// Returns SQL that claims jobs. Parameters: $1 queue, $2 max number of jobs, $3 lease, $4 the claim's number for the
/// column `holder`.
std::string claim_text() {
  return "WITH due AS MATERIALIZED (SELECT found.id FROM generate_series(0, 15) AS class CROSS JOIN LATERAL "
         "(SELECT id FROM canigo_job WHERE state = 0 AND queue = $1::text AND priority = class::int2 AND "
         "run_at <= now() AND (deadline IS NULL OR deadline > now()) AND " +
         is_sound +
         " ORDER BY run_at, id LIMIT $2::int8 "
         "FOR UPDATE SKIP LOCKED) found WHERE NOT EXISTS (SELECT 1 FROM canigo_queue WHERE name = $1::text AND "
         "paused_at IS NOT NULL) LIMIT $2::int8) UPDATE canigo_job SET state = 1, "
         // A crash of the server may lose committed claims. The token is at least the present time in microseconds, so
         // that a later claim of a job does not get the token of a lost claim.
         "token = greatest(token + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::int8), "
         "attempt = attempt + 1, holder = $4::int8, lease_until = " +
         after_or_never("$3") + ", unique_key = CASE WHEN unique_scope <> " +
         std::to_string(static_cast<int>(unique_scope::until_begun)) + " THEN unique_key END" + of_found("due") +
         " RETURNING id, token, queue, kind, payload, priority, attempt, max_attempts, crashes, snoozes, run_at, "
         "deadline, now()";
}

std::string fail_text() {
  const std::string ends = "cancel_at IS NOT NULL OR attempt >= max_attempts OR $4::int8 IS NULL";
  return "UPDATE canigo_job SET " + ends_run + "state = CASE WHEN cancel_at IS NOT NULL THEN 4 WHEN " + ends +
         " THEN 3 ELSE 0 END, run_at = CASE WHEN " + ends + " THEN run_at ELSE " + after("$4") +
         " END, finished_at = CASE WHEN " + ends + " THEN now() END, " + key_if_ended(ends) + ", " +
         history_with("f", "$3::bytea") + of_lease;
}

/// Returns SQL that ends a run without counting its attempt.
std::string undone(const std::string& also) {
  const std::string ends = "cancel_at IS NOT NULL";
  return "UPDATE canigo_job SET " + ends_run + one_less("attempt") + "state = CASE WHEN " + ends +
         " THEN 4 ELSE 0 END, finished_at = CASE WHEN " + ends + " THEN now() END, " + also + key_if_ended(ends);
}

std::string snooze_text() {
  return undone(one_more("snoozes") + "run_at = CASE WHEN cancel_at IS NULL THEN " + after_or_never("$3") +
                " ELSE run_at END, ") +
         of_lease;
}

std::string requeue_text() {
  const std::string for_a_time = std::to_string(static_cast<int>(unique_scope::for_a_time));
  return "UPDATE canigo_job j SET state = 0, run_at = now(), max_attempts = greatest(max_attempts, least(attempt, "
         "2147483646) + 1), "
         "crashes = 0, cancel_at = NULL, finished_at = NULL, result = NULL, "
         "deadline = CASE WHEN deadline > now() THEN deadline END, "
         "unique_key = CASE WHEN unique_scope = " +
         for_a_time +
         " THEN unique_key ELSE unique_home END WHERE id = $1::int8 AND state >= 2 AND NOT EXISTS "
         "(SELECT 1 FROM canigo_job o WHERE o.unique_key = j.unique_home AND o.id <> j.id) RETURNING 1";
}

std::string next_due_text() {
  return "SELECT now(), least((SELECT min(lease_until) FROM canigo_job WHERE state = 1), "
         "(SELECT min(deadline) FROM canigo_job WHERE state = 0), "
         "(SELECT min(f.run_at) FROM generate_series(0, 15) AS class CROSS JOIN LATERAL (SELECT run_at FROM canigo_job "
         "WHERE state = 0 AND queue = $1::text AND priority = class::int2 AND " +
         is_sound +
         " ORDER BY run_at, id LIMIT 1) f "
         "WHERE NOT EXISTS (SELECT 1 FROM canigo_queue WHERE name = $1::text AND paused_at IS NOT NULL)))";
}

std::string trim_text() {
  return "DELETE FROM canigo_job WHERE id = ANY(ARRAY(SELECT id FROM (SELECT id, finished_at, "
         "row_number() OVER (ORDER BY finished_at, state, id) AS place FROM (SELECT id, finished_at, state "
         "FROM canigo_job WHERE state >= 2 AND queue = $1::text ORDER BY finished_at, state, id LIMIT $4::int8 "
         "FOR UPDATE SKIP LOCKED) oldest) placed WHERE finished_at <= now() - $2::int8 * interval '1 microsecond' OR "
         "$3::int8 IS NOT NULL AND place <= (SELECT count(*) FROM canigo_job WHERE state >= 2 AND queue = $1::text) - "
         "$3::int8))";
}

/// Returns SQL that lists the queues with jobs in `states`, by one index seek per queue.
std::string names_in(const std::string& part, const std::string& states) {
  const std::string first = "SELECT min(queue) AS queue FROM canigo_job WHERE " + states;
  return part + " AS (" + first + " UNION ALL SELECT (" + first + " AND queue > " + part + ".queue) FROM " + part +
         " WHERE queue IS NOT NULL), ";
}

/// Returns SQL that counts the jobs of a state by queue, up to `most` jobs in all queues together.
std::string group_of(const std::string& part, const std::string& state, const std::string& most) {
  return part + " AS MATERIALIZED (SELECT queue, count(*) AS jobs, sum(count(*)) OVER () >= " + most +
         " AS has_more FROM (SELECT queue FROM canigo_job WHERE state = " + state + " LIMIT " + most +
         ") j GROUP BY queue), ";
}

/// Returns SQL that counts the jobs. The parameter $1 is the max number of index entries that each part of the
/// statement reads, however many jobs there are.
std::string count_text() {
  const std::string most = "$1::int8";
  return "WITH RECURSIVE " + names_in("ready", "state = 0") + names_in("ended", "state >= 2") +
         group_of("running", "1", most) + group_of("dead", "3", most) + group_of("cancelled", "4", most) +
         "odd AS MATERIALIZED (SELECT queue, state FROM canigo_job WHERE state < 0 OR state > 4 LIMIT 1), "
         "names AS (SELECT name FROM canigo_queue UNION SELECT queue FROM ready UNION SELECT queue FROM ended "
         "UNION SELECT queue FROM running UNION SELECT queue FROM odd) "
         "SELECT n.name, q.paused_at IS NOT NULL, odd.state, w.jobs, coalesce(r.jobs, 0), e.jobs, coalesce(d.jobs, 0), "
         "coalesce(c.jobs, 0), w.jobs >= " +
         most + ", coalesce(r.has_more, false), e.total >= " + most +
         ", coalesce(d.has_more, false), coalesce(c.has_more, false), "
         "(SELECT min(f.run_at) FROM generate_series(0, 15) AS class CROSS JOIN LATERAL (SELECT run_at FROM canigo_job "
         "WHERE state = 0 AND queue = n.name AND priority = class::int2 ORDER BY run_at, id LIMIT 1) f), now() "
         "FROM names n LEFT JOIN canigo_queue q ON q.name = n.name LEFT JOIN running r ON r.queue = n.name "
         "LEFT JOIN dead d ON d.queue = n.name LEFT JOIN cancelled c ON c.queue = n.name "
         "LEFT JOIN odd ON odd.queue = n.name "
         "CROSS JOIN LATERAL (SELECT count(*) AS jobs FROM (SELECT 1 FROM canigo_job WHERE state = 0 AND "
         "queue = n.name ORDER BY priority, run_at, id LIMIT " +
         most +
         ") j) w CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE state = 2) AS jobs, count(*) AS total FROM (SELECT "
         "state FROM canigo_job WHERE state >= 2 AND queue = n.name ORDER BY finished_at DESC, state DESC, id DESC "
         "LIMIT " +
         most + ") j) e WHERE n.name IS NOT NULL";
}

const std::string fields_of_job =
    "SELECT id, token, queue, kind, priority, state, attempt, max_attempts, crashes, snoozes, created_at, run_at, "
    "lease_until, deadline, cancel_at, finished_at, unique_key, batch, after_batch";

std::array<std::string, postgres_statements> make_texts() {
  const std::string job_of_home_key =
      "(SELECT o.id FROM canigo_job o WHERE o.unique_key = j.unique_home AND o.id <> j.id)";
  return {
      "BEGIN ISOLATION LEVEL READ COMMITTED",
      set_up_text(),
      "COMMIT",
      "UNLISTEN canigo_jobs",
      "SELECT pg_notify('canigo_jobs', '')",
      tell_and_wait("$1"),
      "UPDATE canigo_job SET unique_key = NULL WHERE unique_key = $1::bytea AND unique_until <= now()",
      put_text(),
      put_many_text(),
      reap_text(),
      expire_text(),
      claim_text(),
      undone("") + " WHERE state = 1 AND holder = $1::int8",
      "UPDATE canigo_job SET state = 2, finished_at = now(), lease_until = NULL, result = $3::bytea, " +
          key_if_ended("true") + of_lease,
      complete_many_text(),
      fail_text(),
      snooze_text(),
      undone("") + of_lease,
      "UPDATE canigo_job SET lease_until = " + after_or_never("$3") +
          ", result = coalesce($4::bytea, result) WHERE id = $1::int8 AND state = 1 AND token = $2::int8 "
          "RETURNING cancel_at IS NOT NULL, deadline, now()",
      "UPDATE canigo_job SET cancel_at = coalesce(cancel_at, now()), state = CASE state WHEN 0 THEN 4 ELSE state END, "
      "finished_at = CASE state WHEN 0 THEN now() END, " +
          key_if_ended("state = 0") + " WHERE id = $1::int8 AND state IN (0, 1) RETURNING state",
      "SELECT state FROM canigo_job WHERE id = $1::int8",
      "UPDATE canigo_job SET unique_key = NULL WHERE unique_until <= now() AND "
      "unique_key = (SELECT unique_home FROM canigo_job WHERE id = $1::int8 AND state >= 2)",
      requeue_text(),
      "SELECT state, " + job_of_home_key + " FROM canigo_job j WHERE id = $1::int8",
      "DELETE FROM canigo_job WHERE id = $1::int8 AND state <> 1 RETURNING 1",
      trim_text(),
      "INSERT INTO canigo_queue(name, paused_at) VALUES($1::text, CASE WHEN $2::int8 = 1 THEN now() END) "
      "ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at",
      next_due_text(),
      "SELECT now()",
      "SELECT 1 FROM canigo_job WHERE id = $1::int8 FOR SHARE NOWAIT",
      "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 109266741946223))",
      "UPDATE canigo_job SET run_at = now() WHERE state = 0 AND after_batch = $1::text AND run_at = 'infinity' AND "
      "NOT EXISTS (SELECT FROM canigo_job WHERE state < 2 AND batch = $1::text)",
      fields_of_job + ", payload, result, history FROM canigo_job WHERE id = $1::int8",
      fields_of_job +
          " FROM canigo_job WHERE id > $1::int8 AND ($2::text = '' OR queue = $2::text) AND "
          "($3::int8 IS NULL OR state = $3::int8) AND ($5::text = '' OR batch = $5::text) ORDER BY id LIMIT $4::int8",
      fields_of_job +
          " FROM canigo_job WHERE id > $1::int8 AND ($2::text = '' OR queue = $2::text) AND state = $3::int8 AND "
          "state > 2 AND ($5::text = '' OR batch = $5::text) ORDER BY id LIMIT $4::int8",
      count_text(),
  };
}

}  // namespace

const std::string& text_of(postgres_statement s) {
  static const auto texts = make_texts();
  return texts[static_cast<std::size_t>(s)];
}

postgres_query& postgres_query::number(std::int64_t n) {
  argument a;
  for (int shift = 56; shift >= 0; shift -= 8) a.own += static_cast<char>(static_cast<std::uint64_t>(n) >> shift);
  args_.push_back(std::move(a));
  return *this;
}

postgres_query& postgres_query::numbers(const std::vector<std::int64_t>& list) {
  argument a{.is_text = true};
  for (const auto n : list) a.own += (a.own.empty() ? "{" : ",") + std::to_string(n);
  a.own += '}';
  args_.push_back(std::move(a));
  return *this;
}

postgres_query& postgres_query::span(duration d) {
  if (d == duration::max()) return none();
  return number(std::chrono::ceil<std::chrono::microseconds>(d).count());
}

postgres_query& postgres_query::bytes(std::string_view b) {
  args_.push_back({.bytes = b});
  return *this;
}

namespace {

void add_number(std::string& to, std::uint64_t n, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) to += static_cast<char>(n >> shift);
}

/// Encodes an array of one dimension in the server's binary format. `of`: the OID of the element type.
template <class T, class Add>
std::string array_of(const std::vector<T>& list, std::uint32_t of, Add add) {
  std::string a;
  add_number(a, 1, 4);  // the number of dimensions
  add_number(a, 1, 4);  // a flag: the array may contain nulls
  add_number(a, of, 4);
  add_number(a, list.size(), 4);
  add_number(a, 1, 4);  // the index of the first element
  for (const T& element : list) add(a, element);
  return a;
}

void add_null(std::string& to) { add_number(to, UINT32_MAX, 4); }
void add_bytes(std::string& to, std::string_view bytes) {
  add_number(to, bytes.size(), 4);
  to += bytes;
}

}  // namespace

postgres_query& postgres_query::number_array(const std::vector<std::optional<std::int64_t>>& list) {
  args_.push_back({.own = array_of(list, 20, [](std::string& to, const std::optional<std::int64_t>& n) {
                     if (!n) return add_null(to);
                     add_number(to, 8, 4);
                     add_number(to, static_cast<std::uint64_t>(*n), 8);
                   })});
  return *this;
}

postgres_query& postgres_query::bytea_array(const std::vector<std::string_view>& list) {
  args_.push_back({.own = array_of(list, 17, [](std::string& to, std::string_view b) { add_bytes(to, b); })});
  return *this;
}

postgres_query& postgres_query::text_array(const std::vector<std::optional<std::string_view>>& list) {
  args_.push_back({.own = array_of(list, 25, [](std::string& to, const std::optional<std::string_view>& text) {
                     text ? add_bytes(to, *text) : add_null(to);
                   })});
  return *this;
}

postgres_query& postgres_query::none() {
  args_.push_back({.is_null = true});
  return *this;
}

postgres_query::arguments postgres_query::args() const {
  arguments all;
  for (const argument& a : args_) {
    const std::string_view view = a.bytes.value_or(a.own);
    all.values.push_back(a.is_null ? nullptr : view.data() != nullptr ? view.data() : "");
    all.lengths.push_back(static_cast<int>(view.size()));
    all.formats.push_back(a.is_text ? 0 : 1);
  }
  return all;
}

bool share_a_lock(const std::vector<new_job>& some, const std::vector<new_job>& others) noexcept {
  return std::ranges::any_of(some, [&](const new_job& a) {
    return std::ranges::any_of(others, [&](const new_job& b) {
      return a.unique_key == b.unique_key && (!b.unique_key.empty() || a.queue == b.queue);
    });
  });
}

std::vector<postgres_query> put_queries(const new_job& j) {
  using s = postgres_statement;
  std::vector<postgres_query> list;
  const bool is_unique = !j.unique_key.empty();
  if (is_unique) list.push_back(postgres_query{s::free_key}.bytes(j.unique_key));
  const bool is_for_a_time = is_unique && j.scope == unique_scope::for_a_time;
  list.push_back(postgres_query{s::put}
                     .bytes(j.queue)
                     .bytes(j.kind)
                     .bytes(j.payload)
                     .number(j.priority)
                     .span(j.delay)
                     .span(j.expires_in)
                     .number(j.max_attempts)
                     .bytes_or_none(j.unique_key)
                     .number(static_cast<int>(j.scope))
                     .span(is_for_a_time ? j.unique_for : duration::max()));
  j.at ? list.back().number(j.at->time_since_epoch().count()) : list.back().none();
  list.back().bytes_or_none(j.batch).bytes_or_none(j.after_batch);
  return list;
}

postgres_query put_many_query(const std::vector<const new_job*>& jobs) {
  using number = std::optional<std::int64_t>;
  const auto us = [](duration d) {
    return d == duration::max() ? number{} : number{std::chrono::ceil<std::chrono::microseconds>(d).count()};
  };
  std::vector<std::optional<std::string_view>> queues, kinds, batches;
  std::vector<std::string_view> payloads;
  std::vector<number> priorities, delays, expiries, attempts, instants;
  for (const new_job* j : jobs) {
    queues.emplace_back(j->queue);
    kinds.emplace_back(j->kind);
    payloads.emplace_back(j->payload);
    priorities.emplace_back(j->priority);
    delays.push_back(us(j->delay));
    expiries.push_back(us(j->expires_in));
    attempts.emplace_back(j->max_attempts);
    instants.push_back(j->at ? number{j->at->time_since_epoch().count()} : number{});
    batches.push_back(j->batch.empty() ? std::nullopt : std::optional<std::string_view>{j->batch});
  }
  postgres_query q{postgres_statement::put_many};
  q.text_array(queues).text_array(kinds).bytea_array(payloads).number_array(priorities).number_array(delays);
  q.number_array(expiries).number_array(attempts).number_array(instants).text_array(batches);
  return q;
}

postgres_query complete_many_query(const std::vector<lease>& leases, const std::vector<std::string_view>& results) {
  std::vector<std::optional<std::int64_t>> ids, tokens;
  for (const lease& l : leases) {
    ids.emplace_back(l.id);
    tokens.emplace_back(static_cast<std::int64_t>(l.token));
  }
  postgres_query q{postgres_statement::complete_many};
  q.number_array(ids).number_array(tokens).bytea_array(results);
  return q;
}

std::vector<postgres_query> settle_queries(const new_job& j) {
  using s = postgres_statement;
  std::vector<postgres_query> list;
  if (j.after_batch.empty()) return list;
  list.push_back(postgres_query{s::lock_batch}.bytes(j.after_batch));
  list.push_back(postgres_query{s::settle_batch}.bytes(j.after_batch));
  return list;
}

std::vector<postgres_query> claim_queries(const std::string& queue, const claim_request& r, const store_policy& p,
                                          std::int64_t mark, std::string_view commit_wait) {
  using s = postgres_statement;
  // After a crash, the server delays a job by a random time between `shortest` and `longest`. Both depend on the number
  // of the job's crashes. After 64 crashes the delay no longer grows.
  std::vector<std::int64_t> shortest;
  std::vector<std::int64_t> longest;
  for (std::uint32_t crashes = 1; crashes <= std::min(p.most_crashes, 64U); ++crashes) {
    const auto us = [&](std::uint64_t bits) {
      return std::chrono::ceil<std::chrono::microseconds>(p.after_crash.delay(crashes, bits)).count();
    };
    shortest.push_back(us(0));
    longest.push_back(us(~std::uint64_t{0}));
  }
  const auto most = static_cast<std::int64_t>(std::min<std::size_t>(r.limit, 1 << 20));
  std::vector<postgres_query> list;
  list.push_back(postgres_query{s::reap}
                     .number(p.most_crashes)
                     .number(static_cast<std::int64_t>(reap_limit))
                     .numbers(shortest)
                     .numbers(longest)
                     .bytes(commit_wait));
  list.push_back(postgres_query{s::expire}.number(static_cast<std::int64_t>(reap_limit)).bytes(commit_wait));
  list.push_back(postgres_query{s::claim}.bytes(queue).number(most).span(r.lease).number(mark));
  return list;
}

}  // namespace canigo::jobs::detail
