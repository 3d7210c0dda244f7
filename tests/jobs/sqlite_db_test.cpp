#include "../../lib/jobs/sqlite_db.hpp"

#include "../../lib/jobs/sqlite_schema.hpp"
#include "faulty_files.hpp"
#include "sqlite_world.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <sqlite3.h>
#include <string>
#include <system_error>

using namespace canigo;
using namespace std::chrono_literals;

TEST_CASE("who makes a file ready waits for others who use it, for as long as it may", "[jobs]") {
  faulty_files files;
  scratch_folder folder;
  jobs::detail::sqlite_db other{folder.file(), 0ms};
  other.exec("CREATE TABLE t(x); BEGIN; SELECT * FROM t");
  int refusals = 0;
  files.at_refusal([&] { ++refusals; });
  {
    jobs::detail::sqlite_db db{folder.file(), 0ms};
    CHECK_THROWS_AS(jobs::detail::set_up(db), std::system_error);
    CHECK(refusals == 1);
  }
  files.at_refusal([&] {
    if (++refusals == 10) other.exec("COMMIT");
  });
  jobs::detail::sqlite_db db{folder.file(), 24h};
  jobs::detail::set_up(db);
  CHECK(refusals == 10);
  files.at_refusal(nullptr);
}

TEST_CASE("a file that was made ready has a log, and a connection to it 16 MiB of pages in memory", "[jobs]") {
  scratch_folder folder;
  jobs::detail::sqlite_db db{folder.file(), 1s};
  jobs::detail::set_up(db);
  auto& mode = db.sql("PRAGMA journal_mode");
  mode.start();
  REQUIRE(mode.next());
  CHECK(mode.text(0) == "wal");
  mode.reset();
  CHECK(db.sql("PRAGMA cache_size").number() == -16 * 1024);  // KiB
}

TEST_CASE("an error of SQLite has its extended code, and a connection that is gone leaves nothing", "[jobs]") {
  scratch_folder folder;
  const auto in_use = ::sqlite3_memory_used();
  {
    jobs::detail::sqlite_db db{folder.file(), 1s};
    db.exec("CREATE TABLE t(x UNIQUE); INSERT INTO t VALUES(1)");
    CHECK(db.sql("SELECT x FROM t").number() == 1);
    std::string said;
    try {
      db.exec("INSERT INTO t VALUES(1)");
    } catch (const std::system_error& e) {
      said = e.what();
    }
    CHECK(said.find("SQLite's error 2067, UNIQUE constraint failed") != said.npos);
  }
  CHECK(::sqlite3_memory_used() == in_use);
  CHECK_THROWS_AS((jobs::detail::sqlite_db{folder.file() + "-folder/jobs.db", 1s}), std::system_error);
  CHECK(::sqlite3_memory_used() == in_use);
}
