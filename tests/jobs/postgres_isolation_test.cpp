// The store where transactions have another isolation than the server's own default.

#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"
#include "canigo/jobs/postgres_store.hpp"

#include "ending_batch.hpp"
#include "postgres_server.hpp"
#include "support/catch.hpp"
#include "support/said_by.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <system_error>

using namespace canigo;
using namespace canigo::jobs;
using namespace std::chrono_literals;

namespace {

constexpr const char* isolation_levels[] = {"read committed", "repeatable read", "serializable"};

/// A database whose transactions have this isolation unless they say otherwise.
std::string database_with(const std::string& level) {
  std::string name = level;
  name[name.find(' ') == std::string::npos ? 0 : name.find(' ')] = '_';
  postgres_session session{postgres_world::server().url()};
  if (session.run("SELECT 1 FROM pg_database WHERE datname = '" + name + "'").empty()) {
    session.run("CREATE DATABASE " + name);
    session.run("ALTER DATABASE " + name + " SET default_transaction_isolation = '" + level + "'");
  }
  return name;
}

new_job job_with(std::string key = {}) { return {.kind = "kind", .payload = key, .unique_key = key}; }

/// What put_in() says of the job; empty: it is handed in.
std::string refusal(postgres_store& store, postgres_session& session, const new_job& j) {
  try {
    (void)store.put_in(session.get(), j);
    return {};
  } catch (const std::system_error& e) {
    CHECK(e.code() ==
          (j.after_batch.empty() ? make_error_code(jobs::error::locked) : make_error_code(errc::invalid_argument)));
    return said_by(e);
  }
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the store in PostgreSQL passes every case whatever isolation the database has", "[jobs][postgres]") {
  for (const char* level : {isolation_levels[1], isolation_levels[2]}) {
    const std::string database = database_with(level);
    for (const auto& c : conformance::cases()) {
      DYNAMIC_SECTION(level << ", " << c.number << ": " << c.name) {
        postgres_world w{database};
        CHECK(w.session().run("SHOW transaction_isolation") == level);
        CHECK_NOTHROW(c.check(w));
      }
    }
  }
}

TEST_CASE("the last jobs of a batch that end at once let one begin, whatever isolation the database has",
          "[jobs][postgres]") {
  const std::string level = GENERATE(isolation_levels[0], isolation_levels[1], isolation_levels[2]);
  CAPTURE(level);
  postgres_world w{database_with(level)};
  const auto store = w.open();
  postgres_session third{w.url()};
  for (int round = 0; round < 10; ++round) {
    ending_batch batch{w, *store};
    w.io().restart();
    w.io().poll();
    // It waits for the other transaction, and for less time than a lock may hold others up.
    while (third.run("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").empty()) {
    }
    batch.commit();
  }
}

TEST_CASE("a job after a batch is refused in a transaction that does not see the end of the batch",
          "[jobs][postgres]") {
  const std::string level = GENERATE(isolation_levels[0], isolation_levels[1], isolation_levels[2]);
  CAPTURE(level);
  postgres_world w;
  postgres_store store{w.io(), w.url()};
  auto member = job_with();
  member.batch = "b";
  w.wait(store.put(member));
  const auto run = w.wait(store.claim({})).at(0);
  auto& shop = w.session();
  shop.run("BEGIN ISOLATION LEVEL " + level);
  shop.run("SELECT count(*) FROM canigo_job");
  CHECK(w.wait(store.complete(run.lease, "")) == verdict::accepted);
  auto last = job_with();
  last.after_batch = "b";
  const std::string said = refusal(store, shop, last);
  CAPTURE(said);
  if (level == "read committed") {
    CHECK(said.empty());
  } else {
    CHECK(says(said, "new_job.after_batch"));
    CHECK(says(said, level));
    CHECK(says(said, "READ COMMITTED"));
    shop.run("SELECT 1");  // the transaction goes on
  }
  shop.run("COMMIT");
  CHECK(w.wait(store.claim({})).size() == (said.empty() ? 1 : 0));
}

TEST_CASE("a put in the caller's transaction takes no job for the holder of a key that has ended", "[jobs][postgres]") {
  const std::string level = GENERATE(isolation_levels[0], isolation_levels[1], isolation_levels[2]);
  CAPTURE(level);
  postgres_world w;
  postgres_store store{w.io(), w.url()};
  const auto first = w.wait(store.put(job_with("key")));
  const auto run = w.wait(store.claim({})).at(0);
  auto& shop = w.session();
  const auto begin = [&] {
    shop.run("BEGIN ISOLATION LEVEL " + level);
    shop.run("SELECT count(*) FROM canigo_job");
  };

  // While it runs it has the key, and the transaction does not hold it up.
  begin();
  const auto there = store.put_in(shop.get(), job_with("key"));
  CHECK_FALSE(there.is_new);
  CHECK(there.id == first.id);
  CHECK(w.wait(store.extend(run.lease, 1h, std::nullopt)).verdict == verdict::accepted);
  shop.run("COMMIT");

  begin();
  CHECK(w.wait(store.complete(run.lease, "")) == verdict::accepted);
  const std::string said = refusal(store, shop, job_with("key"));
  CAPTURE(said);
  if (level == "read committed") {
    CHECK(said.empty());
  } else {
    CHECK(says(said, level));
    CHECK(says(said, "do the whole transaction again"));
    shop.run("ROLLBACK");
    begin();
    CHECK(refusal(store, shop, job_with("key")).empty());
  }
  shop.run("COMMIT");
  CHECK(w.wait(store.claim({})).size() == 1);
}

TEST_CASE("a put in the caller's transaction needs no isolation for a job without key and batch", "[jobs][postgres]") {
  const std::string level = GENERATE(isolation_levels[0], isolation_levels[1], isolation_levels[2]);
  postgres_world w{database_with(level)};
  postgres_store store{w.io(), w.url()};
  w.wait(store.put(job_with()));
  auto& shop = w.session();
  shop.run("BEGIN");
  shop.run("SELECT count(*) FROM canigo_job");
  CHECK(w.wait(store.claim({})).size() == 1);
  CHECK(refusal(store, shop, job_with()).empty());
  shop.run("COMMIT");
  CHECK(w.wait(store.claim({})).size() == 1);
  // Without a transaction each statement sees what is there.
  auto last = job_with("key");
  last.after_batch = "nobody is of it";
  CHECK(refusal(store, shop, last).empty());
  CHECK(w.wait(store.claim({})).size() == 1);
}
