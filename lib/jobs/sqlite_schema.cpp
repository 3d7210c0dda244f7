#include "sqlite_schema.hpp"

#include "canigo/jobs/error.hpp"

#include <string>
#include <system_error>

namespace canigo::jobs::detail {
namespace {

/// The SQL of each migration changes the tables from one version to the next. The first migration creates the tables.
constexpr const char* migrations[schema_version] = {
    R"(
CREATE TABLE canigo_queue(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, paused_at INTEGER) STRICT;

CREATE TABLE canigo_job(
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  queue        INTEGER NOT NULL,
  priority     INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 15),
  run_at       INTEGER NOT NULL,
  state        INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
  lease_until  INTEGER,
  token        INTEGER NOT NULL DEFAULT 0 CHECK (token BETWEEN 0 AND 9223372036854775806),
  holder       INTEGER,
  attempt      INTEGER NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 2147483646),
  max_attempts INTEGER NOT NULL CHECK (max_attempts BETWEEN 0 AND 2147483647),
  crashes      INTEGER NOT NULL DEFAULT 0 CHECK (crashes BETWEEN 0 AND 2147483647),
  snoozes      INTEGER NOT NULL DEFAULT 0 CHECK (snoozes BETWEEN 0 AND 2147483647),
  deadline     INTEGER,
  cancel_at    INTEGER,
  created_at   INTEGER NOT NULL,
  finished_at  INTEGER,
  unique_key   BLOB,
  unique_until INTEGER,
  unique_scope INTEGER NOT NULL,
  unique_home  BLOB,
  kind         TEXT NOT NULL,
  history      BLOB,
  result       BLOB,
  payload      BLOB) STRICT;
CREATE TABLE canigo_body(id INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT;

CREATE INDEX canigo_job_ready    ON canigo_job(queue, priority, run_at)    WHERE state=0;
CREATE INDEX canigo_job_deadline ON canigo_job(deadline)                   WHERE state=0 AND deadline IS NOT NULL;
CREATE INDEX canigo_job_lease    ON canigo_job(lease_until)                WHERE state=1;
CREATE INDEX canigo_job_finish   ON canigo_job(queue, finished_at, state)  WHERE state>=2;
CREATE INDEX canigo_job_unwell   ON canigo_job(state, queue)               WHERE state>2 OR state<0;
CREATE UNIQUE INDEX canigo_job_unique ON canigo_job(unique_key)            WHERE unique_key IS NOT NULL;
)",
    // This trigger runs when any statement ends a job of a batch. If all jobs of the batch have ended, the trigger lets
    // the jobs begin that wait for the batch.
    R"(
ALTER TABLE canigo_job ADD COLUMN batch TEXT;
ALTER TABLE canigo_job ADD COLUMN after_batch TEXT;
CREATE INDEX canigo_job_batch ON canigo_job(batch)       WHERE state<2 AND batch IS NOT NULL;
CREATE INDEX canigo_job_after ON canigo_job(after_batch) WHERE state=0 AND after_batch IS NOT NULL;
CREATE TRIGGER canigo_batch_ends AFTER UPDATE OF state ON canigo_job
WHEN NEW.batch IS NOT NULL AND NEW.state>=2 AND OLD.state<2
BEGIN
  UPDATE canigo_job SET run_at=NEW.finished_at WHERE state=0 AND after_batch=NEW.batch AND run_at=9223372036854775807
    AND NOT EXISTS (SELECT 1 FROM canigo_job WHERE state<2 AND batch=NEW.batch);
END;
)"};

std::int64_t version_of(sqlite_db& db) {
  sqlite_statement table{db.connection(), db.file(), "SELECT 1 FROM sqlite_master WHERE name='canigo_schema'"};
  if (!table.number()) return 0;
  sqlite_statement version{db.connection(), db.file(), "SELECT version FROM canigo_schema"};
  return version.number().value_or(0);
}

}  // namespace

void make_tables(sqlite_db& db) {
  std::int64_t version = version_of(db);
  if (version < schema_version) {
    const bool is_own = ::sqlite3_get_autocommit(db.connection()) != 0;
    if (is_own) db.exec("BEGIN IMMEDIATE");
    try {
      // the version is read again in the transaction, because another process may have migrated the tables meanwhile
      version = version_of(db);
      if (version < schema_version) {
        db.exec("CREATE TABLE IF NOT EXISTS canigo_schema(version INTEGER NOT NULL) STRICT");
        for (; version < schema_version; ++version) db.exec(migrations[version]);
        db.exec("DELETE FROM canigo_schema");
        db.exec(("INSERT INTO canigo_schema VALUES(" + std::to_string(schema_version) + ")").c_str());
      }
      if (is_own) db.exec("COMMIT");
    } catch (...) {
      if (is_own) ::sqlite3_exec(db.connection(), "ROLLBACK", nullptr, nullptr, nullptr);
      throw;
    }
  }
  if (version > schema_version) {
    throw std::system_error{make_error_code(error::newer_schema),
                            db.file() + ": its tables are of version " + std::to_string(version) +
                                ", and this is for " + std::to_string(schema_version) + "; use a newer canigo"};
  }
}

void set_up(sqlite_db& db) {
  db.exec("PRAGMA journal_mode=WAL");
  db.exec("PRAGMA cache_size=-16384");
  make_tables(db);
}

void set_synchronous(sqlite_db& db, bool is_full) {
  db.exec(is_full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
}

}  // namespace canigo::jobs::detail
