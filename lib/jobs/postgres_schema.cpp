#include "postgres_schema.hpp"

#include "canigo/jobs/error.hpp"

#include "number_text.hpp"
#include "postgres_link.hpp"

#include <string_view>
#include <system_error>

namespace canigo::jobs::detail {
namespace {

constexpr int postgres_version = 2;

/// Element i changes the tables from version i to version i + 1. Element 0 creates the tables.
constexpr const char* migrations[postgres_version] = {R"(
CREATE TABLE canigo_queue(name text PRIMARY KEY, paused_at timestamptz);

CREATE TABLE canigo_job(
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue        text NOT NULL DEFAULT 'default',
  kind         text NOT NULL,
  priority     smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 15),
  state        smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
  run_at       timestamptz NOT NULL DEFAULT now(),
  lease_until  timestamptz,
  token        bigint NOT NULL DEFAULT 0 CHECK (token BETWEEN 0 AND 9223372036854775806),
  holder       bigint,
  attempt      int NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 2147483646),
  max_attempts int NOT NULL DEFAULT 25 CHECK (max_attempts >= 0),
  crashes      int NOT NULL DEFAULT 0 CHECK (crashes >= 0),
  snoozes      int NOT NULL DEFAULT 0 CHECK (snoozes >= 0),
  deadline     timestamptz,
  cancel_at    timestamptz,
  created_at   timestamptz NOT NULL DEFAULT now(),
  finished_at  timestamptz,
  unique_key   bytea,
  unique_home  bytea,
  unique_scope smallint NOT NULL DEFAULT 1,
  unique_until timestamptz,
  history      bytea[] NOT NULL DEFAULT '{}',
  result       bytea,
  payload      bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX canigo_job_ready    ON canigo_job(queue, priority, run_at, id)    WHERE state = 0;
CREATE INDEX canigo_job_deadline ON canigo_job(deadline)                       WHERE state = 0 AND deadline IS NOT NULL;
CREATE INDEX canigo_job_lease    ON canigo_job(lease_until)                    WHERE state = 1;
CREATE INDEX canigo_job_finish   ON canigo_job(queue, finished_at, state, id)  WHERE state >= 2;
CREATE INDEX canigo_job_unwell   ON canigo_job(state, id, queue)               WHERE state < 0 OR state > 2;
CREATE UNIQUE INDEX canigo_job_unique ON canigo_job(unique_key)                WHERE unique_key IS NOT NULL;
)",
                                                      R"(
ALTER TABLE canigo_job ADD COLUMN batch text, ADD COLUMN after_batch text;
CREATE INDEX canigo_job_batch ON canigo_job(batch)       WHERE state < 2 AND batch IS NOT NULL;
CREATE INDEX canigo_job_after ON canigo_job(after_batch) WHERE state = 0 AND after_batch IS NOT NULL;

-- The last job of a batch to end, whatever statement ends it, lets those begin that wait for the batch. Transactions
-- that end several at once do not see each other: the lock lets the last one see all. Each statement sees what was
-- committed before it. The other number is "canigo" in ASCII.
CREATE OR REPLACE FUNCTION canigo_batch_ends() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $canigo$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(OLD.batch, 109266741946223));
  UPDATE canigo_job SET run_at = now() WHERE state = 0 AND after_batch = OLD.batch AND run_at = 'infinity'
    AND NOT EXISTS (SELECT FROM canigo_job WHERE state < 2 AND batch = OLD.batch);
  RETURN NULL;
END
$canigo$;
CREATE TRIGGER canigo_batch_ends AFTER UPDATE OF state ON canigo_job FOR EACH ROW
  WHEN (OLD.batch IS NOT NULL AND OLD.state < 2 AND NEW.state >= 2) EXECUTE FUNCTION canigo_batch_ends();
CREATE TRIGGER canigo_batch_loses AFTER DELETE ON canigo_job FOR EACH ROW
  WHEN (OLD.batch IS NOT NULL AND OLD.state < 2) EXECUTE FUNCTION canigo_batch_ends();
)"};

/// Returns the version of the library's tables that the server finds in the search path; 0 if there are none.
int version_of(postgres_link& link) {
  // The query does not use to_regclass(), because within a transaction the server would cache that the table is
  // missing.
  const auto table = link.exec("SELECT FROM pg_class WHERE relname = 'canigo_schema' AND pg_table_is_visible(oid)");
  if (table.size() == 0) return 0;
  const auto version = link.exec("SELECT version FROM canigo_schema");
  int n = 0;
  if (version.size() > 0) {
    std::string_view text = version.view(0, 0);
    take_number(text, n);
  }
  return n;
}

}  // namespace

void make_tables(postgres_link& link, const std::string& place) {
  link.begin();
  int version = version_of(link);
  link.commit();
  if (version < postgres_version) {
    link.begin();
    // Takes a lock, so that only one process at a time migrates the tables. The number is "canigo" in ASCII.
    link.exec("SELECT pg_advisory_xact_lock(109266741946223)");
    version = version_of(link);
    const bool is_still_old = version < postgres_version;
    if (is_still_old) {
      if (version == 0) link.exec("CREATE TABLE IF NOT EXISTS canigo_schema(version int NOT NULL)");
      // A migration has no time limit, because with many jobs it takes longer than any other statement of the library.
      link.exec("SET LOCAL statement_timeout = 0");
      for (; version < postgres_version; ++version) link.exec_patiently(migrations[version]);
      link.exec("DELETE FROM canigo_schema");
      link.exec("INSERT INTO canigo_schema VALUES(" + std::to_string(postgres_version) + ")");
    }
    link.commit();
  }
  if (version > postgres_version) {
    throw std::system_error{make_error_code(error::newer_schema),
                            place + ": its tables are of version " + std::to_string(version) + ", and this is for " +
                                std::to_string(postgres_version) + "; use a newer canigo"};
  }
}

}  // namespace canigo::jobs::detail
