#include "canigo/jobs/error.hpp"
#include "canigo/jobs/sqlite_store.hpp"

#include "../../lib/jobs/sqlite_db.hpp"
#include "sqlite_world.hpp"
#include "support/catch.hpp"
#include "upgrade.hpp"
#include "version_1.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

// Files of the first version of the tables.

using namespace canigo;
using namespace std::chrono_literals;
using jobs::detail::sqlite_db;
using jobs::detail::sqlite_statement;

namespace {

/// A world whose file the first version has made.
class old_file : public sqlite_world {
 public:
  old_file() {
    sqlite_db own{file(), 1s};
    own.exec("PRAGMA journal_mode=WAL");
    own.exec(version_1_sqlite);
    advance(after_version_1);
  }

  /// All that the first version knew, as SQL would write it.
  std::vector<std::string> rows() {
    sqlite_db own{file(), 1s};
    std::vector<std::string> rows;
    const auto read = [&](const char* sql) {
      sqlite_statement s{own.connection(), own.file(), sql};
      s.start();
      while (s.next()) rows.push_back(s.text(0));
      s.reset();
    };
    read(
        "SELECT row FROM (SELECT id, quote(id)||' '||quote(queue)||' '||quote(priority)||' '||quote(run_at)||"
        "' '||quote(state)||' '||quote(lease_until)||' '||quote(token)||' '||quote(holder)||' '||quote(attempt)||' '||"
        "quote(max_attempts)||' '||quote(crashes)||' '||quote(snoozes)||' '||quote(deadline)||' '||quote(cancel_at)||"
        "' '||quote(created_at)||' '||quote(finished_at)||' '||quote(unique_key)||' '||quote(unique_until)||' '||"
        "quote(unique_scope)||' '||quote(unique_home)||' '||quote(kind)||' '||quote(history)||' '||quote(result)||' '||"
        "quote(payload) AS row FROM canigo_job) ORDER BY id");
    read("SELECT quote(id)||quote(payload) FROM canigo_body ORDER BY id");
    read("SELECT quote(id)||quote(name)||quote(paused_at) FROM canigo_queue ORDER BY id");
    read("SELECT name||quote(seq) FROM sqlite_sequence ORDER BY name");
    return rows;
  }
};

std::optional<std::int64_t> number_in(sqlite_db& db, const char* sql) { return db.sql(sql).number(); }

}  // namespace

TEST_CASE("a file of the first version keeps all that is in it, and its jobs go on", "[jobs]") {
  old_file w;
  const auto before = w.rows();
  REQUIRE(before.size() > jobs_of_version_1().size());
  const auto store = w.open();
  check_old_jobs(w, *store);
  CHECK(w.rows() == before);
  check_old_jobs_go_on(w, *store);
}

TEST_CASE("stores that open a file of the first version at once all work", "[jobs]") {
  old_file w;
  const auto before = w.rows();
  std::vector<std::shared_ptr<jobs::store>> stores;
  for (int i = 0; i < 6; ++i) stores.push_back(w.open());
  for (const auto& s : stores) check_old_jobs(w, *s);
  CHECK(w.rows() == before);
  check_old_jobs_go_on(w, *stores.back());
}

TEST_CASE("a process of the first version that has the file open goes on", "[jobs]") {
  old_file w;
  sqlite_db old{w.file(), 5s};
  const char* claim =
      "UPDATE canigo_job SET state=1, attempt=attempt+1, token=token+1, lease_until=9000000000000000, holder=5 "
      "WHERE id=?1 AND state=0";
  const char* end =
      "UPDATE canigo_job SET state=2, finished_at=?2, lease_until=NULL, result=x'01' WHERE id=?1 AND state=1";
  const char* put =
      "INSERT INTO canigo_job(queue, priority, run_at, created_at, max_attempts, unique_scope, kind, payload) "
      "VALUES(1, 0, 0, 0, 25, 1, 'old', x'')";
  old.sql(claim).run(1);  // so all of them are prepared before the tables change
  old.sql(end).run(1, 7);
  old.sql(put).run();

  const auto store = w.open();
  const jobs::new_job first{.kind = "first", .batch = "b"};
  const jobs::new_job last{.kind = "last", .after_batch = "b"};
  const auto first_id = w.wait(store->put(first)).id;
  const auto last_id = w.wait(store->put(last)).id;
  old.sql(put).run();
  const auto put_later = ::sqlite3_last_insert_rowid(old.connection());
  CHECK(w.wait(store->look(put_later))->kind == "old");
  old.sql(claim).run(first_id);
  CHECK(w.wait(store->look(last_id))->run_at == jobs::instant::max());
  old.sql(end).run(first_id, 8);
  CHECK(w.wait(store->look(first_id))->state == jobs::job_state::done);
  CHECK(w.wait(store->look(last_id))->run_at.time_since_epoch() == 8us);
}

TEST_CASE("a file of the first version is left as it is if the transaction of the first job is undone", "[jobs]") {
  old_file w;
  const auto before = w.rows();
  sqlite_db own{w.file(), 5s};
  own.exec("BEGIN IMMEDIATE");
  jobs::sqlite_store store{w.io(), w.file(), w.options()};
  const jobs::new_job j{.kind = "kind", .batch = "b"};
  CHECK(store.put_in(own.connection(), j).id == 17);
  own.exec("ROLLBACK");
  CHECK(w.rows() == before);
  check_old_jobs(w, store);
  CHECK(w.rows() == before);
  CHECK(number_in(own, "SELECT version FROM canigo_schema") == 2);
}
