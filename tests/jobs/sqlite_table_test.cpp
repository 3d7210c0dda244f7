#include "../../lib/jobs/sqlite_table.hpp"

#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"

#include "../../lib/jobs/memory_table.hpp"
#include "../../lib/jobs/sqlite_schema.hpp"
#include "foreign_rows.hpp"
#include "sqlite_world.hpp"
#include "support/catch.hpp"
#include "support/said_by.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace canigo;
using namespace canigo::jobs;
using namespace std::chrono_literals;

namespace {

/// The same steps in a file and in memory, drawn from a seed.
class twins {
 public:
  explicit twins(std::uint32_t seed) : random_{seed} { jobs::detail::set_up(db_); }

  void step() {
    now_ += std::chrono::microseconds{one_of(4) == 0 ? random_() % 40'000'000 : random_() % 100};
    // Nothing has changed since the last step, or ever.
    CHECK_FALSE(file_.take_news());
    CHECK_FALSE(memory_.take_news());
    db_.exec("BEGIN IMMEDIATE");
    const std::uint32_t what = one_of(14);
    CAPTURE(what);
    if (what < 4) {
      put();
    } else if (what < 7) {
      claim();
    } else {
      change(what);
    }
    db_.exec("COMMIT");
    CHECK(file_.take_news() == memory_.take_news());
    for (const char* name : {"a", "b"}) CHECK(file_.next_due(name) == memory_.next_due(name));
    CHECK(file_.count(now_) == memory_.count(now_));
    for (job_id id = 1; id <= last_; ++id) CHECK(file_.look(id) == of_file(memory_.look(id)));
  }

 private:
  std::uint32_t one_of(std::uint32_t n) { return static_cast<std::uint32_t>(random_()) % n; }
  std::string queue() { return one_of(2) == 0 ? "a" : "b"; }
  job_id some_id() { return last_ == 0 ? 1 : 1 + static_cast<job_id>(one_of(static_cast<std::uint32_t>(last_))); }

  void put() {
    std::vector<new_job> list;
    for (std::uint32_t n = one_of(3); n < 3; ++n) {
      new_job j{.queue = queue(), .kind = "kind", .payload = std::string(one_of(3) * 3000, 'p')};
      j.priority = static_cast<int>(one_of(3)) * 7;
      if (one_of(2) == 0) j.delay = one_of(30) * 1s;
      if (one_of(4) == 0) j.expires_in = (1 + one_of(60)) * 1s;
      j.max_attempts = 1 + one_of(3);
      if (one_of(3) == 0) {
        j.unique_key = std::string(1, static_cast<char>('a' + one_of(3)));
        j.scope = static_cast<unique_scope>(one_of(3));
        j.unique_for = (1 + one_of(60)) * 1s;
      }
      if (one_of(3) == 0) j.batch = one_of(2) == 0 ? "x" : "y";
      if (one_of(6) == 0) {
        j.after_batch = j.batch == "x" ? "y" : "x";
        j.delay = duration::zero();
      } else if (one_of(6) == 0) {
        j.at = jobs::detail::later(now_, j.delay);
        j.delay = duration::zero();
      }
      list.push_back(j);
    }
    const auto ours = file_.put_all(list, now_);
    const auto theirs = memory_.put_all(list, now_);
    REQUIRE(ours.size() == theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      CHECK(ours[i].id == theirs[i].id);
      CHECK(ours[i].is_new == theirs[i].is_new);
      last_ = std::max(last_, ours[i].id);
    }
  }

  void claim() {
    const claim_request r{.queue = queue(), .limit = 1 + one_of(4), .lease = (1 + one_of(30)) * 1s};
    const auto ours = file_.claim(r, now_);
    const auto theirs = memory_.claim(r, now_);
    REQUIRE(ours.size() == theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const auto &a = ours[i], &b = theirs[i];
      CHECK(a.lease.id == b.lease.id);
      CHECK(a.lease.token > tokens_[{a.lease.id, b.lease.token - 1}]);
      tokens_[{a.lease.id, b.lease.token}] = a.lease.token;
      CHECK((a.queue == b.queue && a.kind == b.kind && a.payload == b.payload && a.priority == b.priority));
      CHECK((a.attempt == b.attempt && a.max_attempts == b.max_attempts && a.crashes == b.crashes));
      CHECK((a.snoozes == b.snoozes && a.run_at == b.run_at && a.expires_in == b.expires_in));
      leases_.push_back(b.lease);
    }
  }

  void change(std::uint32_t what) {
    const lease m = leases_.empty() ? lease{1, 1} : leases_[one_of(static_cast<std::uint32_t>(leases_.size()))];
    const lease l{m.id, tokens_[{m.id, m.token}]};
    const job_id id = some_id();
    const duration d = one_of(20) * 1s;
    const auto same = [](auto a, auto b) { CHECK(a == b); };
    switch (what) {
      case 7:
        return same(file_.complete(l, "r", now_), memory_.complete(m, "r", now_));
      case 8: {
        const duration retry = one_of(8) == 0 ? duration::max() : d;
        return same(file_.fail(l, "f", retry, now_), memory_.fail(m, "f", retry, now_));
      }
      case 9:
        return one_of(2) == 0 ? same(file_.snooze(l, d, now_), memory_.snooze(m, d, now_))
                              : same(file_.give_back(l, now_), memory_.give_back(m, now_));
      case 10: {
        const auto a = file_.extend(l, d + 1s, "half", now_), b = memory_.extend(m, d + 1s, "half", now_);
        CHECK((a.verdict == b.verdict && a.is_cancelled == b.is_cancelled && a.expires_in == b.expires_in));
        return;
      }
      case 11:
        return same(file_.cancel(id, now_), memory_.cancel(id, now_));
      case 12: {
        const auto a = file_.requeue(id, now_), b = memory_.requeue(id, now_);
        CHECK((a.what == b.what && a.holder == b.holder));
        return;
      }
      default:
        if (one_of(3) == 0) return same(file_.remove(id, now_), memory_.remove(id, now_));
        if (one_of(2) == 0) {
          const auto name = queue();
          const bool is_paused = one_of(2) == 0;
          file_.pause(name, is_paused, now_);
          return memory_.pause(name, is_paused, now_);
        }
        trim_request r{.queue = queue(), .limit = 1 + one_of(3)};
        if (one_of(2) == 0) r.older_than = d;
        if (one_of(2) == 0) r.keep = one_of(4);
        return same(file_.trim(r, now_), memory_.trim(r, now_));
    }
  }

  /// A file's tokens follow the clock; those in memory count.
  std::optional<job_info> of_file(std::optional<job_info> info) {
    if (info) info->token = tokens_[{info->id, info->token}];
    return info;
  }

  static store_policy policy() {
    store_policy p;
    p.after_crash.jitter = jitter::none;
    return p;
  }

  scratch_folder folder_;
  jobs::detail::sqlite_db db_{folder_.file(), 1s};
  jobs::detail::sqlite_table file_{db_, policy(), 1};
  jobs::detail::memory_table memory_{policy()};
  std::mt19937 random_;
  instant now_{1'700'000'000s};
  job_id last_ = 0;
  std::vector<lease> leases_;                                         // those of the memory
  std::map<std::pair<job_id, std::uint64_t>, std::uint64_t> tokens_;  // the file's, by job and the memory's
};

}  // namespace

TEST_CASE("a table in a file does what one in memory does", "[jobs]") {
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    twins t{seed};
    for (int i = 0; i < 150; ++i) t.step();
  }
}

TEST_CASE("a claim that a loss of power took back has a token that nobody gets", "[jobs]") {
  scratch_folder folder;
  jobs::detail::sqlite_db db{folder.file(), 1s};
  jobs::detail::set_up(db);
  jobs::detail::sqlite_table table{db, {}, 1};
  const instant now{1'700'000'000s};
  table.put_all({{.kind = "kind"}}, now);
  db.exec("BEGIN IMMEDIATE");
  const auto lost = table.claim({}, now);
  db.exec("ROLLBACK");
  REQUIRE(lost.size() == 1);
  const auto second = table.claim({}, now + 1us);
  REQUIRE(second.size() == 1);
  CHECK(table.complete(lost[0].lease, "of the first", now + 1s) == verdict::superseded);
  CHECK(table.complete(second[0].lease, "of the second", now + 1s) == verdict::accepted);
}

TEST_CASE("a table reads each of its indexes, and no job more than it needs", "[jobs]") {
  scratch_folder folder;
  jobs::detail::sqlite_db db{folder.file(), 1s};
  jobs::detail::set_up(db);
  jobs::detail::sqlite_table table{db, {}, 1};
  const instant now{1'700'000'000s};
  db.exec("BEGIN IMMEDIATE");
  std::vector<new_job> delayed(2000, new_job{.kind = "kind", .delay = 1h});
  table.put_all(delayed, now);
  const auto steps_of_claim = [&] {
    int steps = 0;
    ::sqlite3_progress_handler(db.connection(), 1, [](void* n) { return ++*static_cast<int*>(n), 0; }, &steps);
    CHECK(table.claim({}, now).empty());
    CHECK(table.next_due("default") == now + 1h);
    ::sqlite3_progress_handler(db.connection(), 0, nullptr, nullptr);
    return steps;
  };
  steps_of_claim();  // SQLite 3.46 takes more steps the first time
  const int with_few = steps_of_claim();
  table.put_all(delayed, now);
  CHECK(steps_of_claim() == with_few);
  db.exec("COMMIT");
}

TEST_CASE("a file's values that another program wrote stop no other job, and are named", "[jobs]") {
  scratch_folder folder;
  jobs::detail::sqlite_db db{folder.file(), 1s};
  jobs::detail::set_up(db);
  jobs::detail::sqlite_table table{db, {}, 1};
  const instant now{1'700'000'000s};
  const auto text_of = [](const auto& step) -> std::string {
    try {
      step();
    } catch (const std::system_error& e) {
      CHECK(e.code() == jobs::error::failed);
      return e.what();
    }
    return "no error";
  };
  for (const auto& f : foreign_rows) {
    CAPTURE(f.column, f.value);
    const auto id = table.put_all({{.kind = "bad"}}, now).front().id;
    const std::string sql = "UPDATE canigo_job SET " + f.column + "=" + f.value + " WHERE id=" + std::to_string(id);
    CHECK_THROWS_AS(db.exec(sql.c_str()), std::system_error);  // new tables refuse it
    db.exec("PRAGMA ignore_check_constraints=ON");             // earlier ones do not
    db.exec(sql.c_str());
    const auto good = table.put_all({{.kind = "good"}}, now).front().id;
    const auto claimed = table.claim({.limit = 9}, now);
    REQUIRE(claimed.size() == 1);
    CHECK(claimed[0].lease.id == good);
    CHECK(table.complete(claimed[0].lease, "", now) == verdict::accepted);
    CHECK(table.next_due("default") == instant::max());
    if (!f.range.empty()) {
      const auto text = text_of([&] { table.look(id); });
      CHECK(text.starts_with("job " + std::to_string(id) + ": " + f.column + " is " + f.value));
      CHECK(text.find(f.range) != text.npos);
      CHECK(text_of([&] { table.list({}); }) == text);
    }
    if (f.column == "state") {
      CHECK(text_of([&] { table.count(now); }).starts_with("a job of queue default: state is " + f.value));
    }
    CHECK(table.remove(id, now) == remove_answer::removed);
    db.exec("PRAGMA ignore_check_constraints=OFF");
  }
}

TEST_CASE("a job that goes takes its long payload with it", "[jobs]") {
  scratch_folder folder;
  jobs::detail::sqlite_db db{folder.file(), 1s};
  jobs::detail::set_up(db);
  jobs::detail::sqlite_table table{db, {}, 1};
  const instant now{1'700'000'000s};
  const auto bodies = [&] { return db.sql("SELECT count(*) FROM canigo_body").number(); };
  const auto id = table.put_all({{.kind = "kind", .payload = std::string(9000, 'x')}}, now).front().id;
  CHECK(bodies() == 1);
  CHECK(table.remove(id, now) == remove_answer::removed);
  CHECK(bodies() == 0);
}

TEST_CASE("the counts of a job stay at the end of their range", "[jobs]") {
  scratch_folder folder;
  jobs::detail::sqlite_db db{folder.file(), 1s};
  jobs::detail::set_up(db);
  jobs::detail::sqlite_table table{db, {.most_crashes = UINT32_MAX}, 1};
  const instant now{1'700'000'000s};
  const auto id = table.put_all({{.kind = "kind"}}, now).front().id;
  for (const char* before : {"2147483646", "2147483647"}) {
    const std::string sql = std::string{"UPDATE canigo_job SET run_at=0, crashes="} + before + ", snoozes=" + before;
    db.exec(sql.c_str());
    const auto run = table.claim({}, now).at(0).lease;
    CHECK(table.snooze(run, 0s, now) == verdict::accepted);
    table.claim({.lease = 1ms}, now);
    table.next_due("default");
    table.claim({}, now + 1s);  // finds the crash
    CHECK(table.look(id).value().crashes == 2147483647);
    CHECK(table.look(id).value().snoozes == 2147483647);
    const std::string over = "UPDATE canigo_job SET state=0, lease_until=NULL";
    db.exec(over.c_str());
  }
}

TEST_CASE("a count of a table ends at a number, and says so", "[jobs]") {
  scratch_folder folder;
  jobs::detail::sqlite_db db{folder.file(), 1s};
  jobs::detail::set_up(db);
  jobs::detail::sqlite_table table{db, {}, 1};
  const instant now{1'700'000'000s};
  db.exec("BEGIN IMMEDIATE");
  table.pause("a", false, now);
  table.pause("b", false, now);
  const auto insert = [&](const std::string& queue, int state, std::size_t jobs) {
    const std::string sql =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<" + std::to_string(jobs) +
        ") INSERT INTO canigo_job(queue, priority, run_at, state, lease_until, max_attempts, created_at, finished_at, "
        "unique_scope, kind) SELECT q.id, 0, 0, " +
        std::to_string(state) + ", 0, 1, 0, 0, 1, 'k' FROM n, canigo_queue q WHERE q.name='" + queue + "'";
    db.exec(sql.c_str());
  };
  insert("a", 0, most_counted + 5);
  insert("a", 2, most_counted + 5);
  insert("a", 3, 2);
  insert("b", 1, 3);
  insert("b", 4, most_counted - 1);
  const auto counts = table.count(now);
  insert("b", 4, 1);
  CHECK_FALSE(counts.at(1).has_more[4]);
  CHECK(table.count(now).at(1).has_more[4]);
  REQUIRE(counts.size() == 2);
  CHECK(counts[0].of(job_state::waiting) == most_counted);
  CHECK(counts[0].has_more[0]);
  CHECK(counts[0].of(job_state::running) == 0);
  // Those that are dead are among the last that ended.
  CHECK(counts[0].of(job_state::done) == most_counted - 2);
  CHECK(counts[0].has_more[2]);
  CHECK(counts[0].of(job_state::dead) == 2);
  CHECK_FALSE(counts[0].has_more[3]);
  CHECK(counts[1].of(job_state::running) == 3);
  CHECK(counts[1].of(job_state::cancelled) == most_counted - 1);
  CHECK_FALSE(counts[1].has_more[4]);
  // However many there are, no more is read.
  const auto steps_of_count = [&] {
    int steps = 0;
    ::sqlite3_progress_handler(db.connection(), 1, [](void* n) { return ++*static_cast<int*>(n), 0; }, &steps);
    table.count(now);
    ::sqlite3_progress_handler(db.connection(), 0, nullptr, nullptr);
    return steps;
  };
  const int before = steps_of_count();
  insert("a", 0, 50'000);
  insert("a", 2, 50'000);
  CHECK(steps_of_count() < before + before / 100);
  db.exec("ROLLBACK");
}

TEST_CASE("a table goes on after the file was full", "[jobs]") {
  scratch_folder folder;
  jobs::detail::sqlite_db db{folder.file(), 1s};
  jobs::detail::set_up(db);
  jobs::detail::sqlite_table table{db, {}, 1};
  const instant now{1'700'000'000s};
  table.put_all({{.kind = "small"}}, now);
  db.exec("PRAGMA max_page_count=20");
  db.exec("BEGIN IMMEDIATE");
  try {
    table.put_all({{.kind = "big", .payload = std::string(1 << 20, 'x')}}, now);
    FAIL("a megabyte does not fit");
  } catch (const std::system_error& e) {
    CHECK(e.code() == jobs::error::full);
    CHECK(said_by(e) == folder.file() + ": SQLite's error 13, database or disk is full; free space on its " +
                            "disk: the store has no space left");
  }
  ::sqlite3_exec(db.connection(), "ROLLBACK", nullptr, nullptr, nullptr);
  CHECK(table.count(now).front().of(job_state::waiting) == 1);
  db.exec("PRAGMA max_page_count=1000000");
  CHECK(table.put_all({{.kind = "big", .payload = std::string(1 << 20, 'x')}}, now).front().id == 2);
}

TEST_CASE("the leases of a process that is gone run out at once, and that is news if there are any", "[jobs]") {
  scratch_folder folder;
  jobs::detail::sqlite_db db{folder.file(), 1s};
  jobs::detail::set_up(db);
  constexpr std::int64_t own = 7;
  jobs::detail::sqlite_table table{db, {}, own};
  const instant now{1'700'000'000s};
  db.exec("BEGIN IMMEDIATE");
  const job_id id = table.put_all({{.kind = "kind"}}, now).front().id;
  const claim_request r{.lease = 1h};
  REQUIRE(table.claim(r, now).size() == 1);
  CHECK(table.take_news());

  table.end_leases_of(own + 1);
  CHECK_FALSE(table.take_news());
  CHECK(table.claim(r, now).empty());
  CHECK(table.look(id)->state == job_state::running);

  table.end_leases_of(own);
  CHECK(table.take_news());
  CHECK(table.claim(r, now).empty());
  CHECK(table.look(id)->state == job_state::waiting);
  CHECK(table.look(id)->crashes == 1);
  CHECK(table.take_news());

  table.end_leases_of(own);
  CHECK_FALSE(table.take_news());
}
