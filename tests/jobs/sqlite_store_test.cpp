#include "canigo/jobs/sqlite_store.hpp"

#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"
#include "canigo/timeout.hpp"

#include "../../lib/jobs/sqlite_db.hpp"
#include "sqlite_world.hpp"
#include "support/catch.hpp"
#include "support/limits_run.hpp"
#include "support/outcome.hpp"

#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/local/datagram_protocol.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace canigo;
using namespace canigo::jobs;
using namespace std::chrono_literals;

namespace {

new_job simple(std::string payload = {}) { return {.kind = "kind", .payload = std::move(payload)}; }

}  // namespace

TEST_CASE("the store in SQLite passes every case", "[jobs]") {
  for (const auto& c : conformance::cases()) {
    DYNAMIC_SECTION(c.number << ": " << c.name) {
      sqlite_world w;
      CHECK_NOTHROW(c.check(w));
    }
  }
}

TEST_CASE("jobs are there after the store was closed and opened", "[jobs]") {
  sqlite_world w;
  job_id id = 0;
  {
    const auto store = w.open();
    id = w.wait(store->put(simple("payload"))).id;
  }
  const auto store = w.open();
  CHECK(w.wait(store->look(id))->payload == "payload");
  CHECK(w.wait(store->put(simple())).id == id + 1);
  CHECK_FALSE(std::filesystem::exists(w.file() + "-wake/0"));
}

TEST_CASE("stores that open a new file at once all work", "[jobs]") {
  sqlite_world w;
  std::vector<std::shared_ptr<store>> stores;
  for (int i = 0; i < 6; ++i) stores.push_back(w.open());
  for (const auto& s : stores) w.wait(s->put(simple()));
  CHECK(w.wait(stores.front()->count()).front().of(job_state::waiting) == 6);
}

TEST_CASE("calls that wait together are all carried out, in their order", "[jobs]") {
  sqlite_world w;
  const auto store = w.open();
  std::vector<job_id> ids;
  for (int i = 0; i < 200; ++i) {
    net::co_spawn(
        w.io(), [&]() -> net::awaitable<void> { ids.push_back((co_await store->put(simple())).id); }, net::detached);
  }
  w.io().restart();
  w.io().run();
  REQUIRE(ids.size() == 200);
  CHECK(std::ranges::is_sorted(ids));
}

TEST_CASE("a step that fails takes no other step with it", "[jobs]") {
  sqlite_world w;
  const auto store = w.open();
  w.wait(store->put(simple()));
  int failed = 0;
  std::vector<job_id> ids;
  jobs::detail::sqlite_db other{w.file(), 1s};
  other.exec(
      "CREATE TRIGGER no_poison BEFORE INSERT ON canigo_job WHEN new.kind='poison' "
      "BEGIN SELECT RAISE(ABORT, 'refused'); END");
  for (int i = 0; i < 9; ++i) {
    net::co_spawn(
        w.io(),
        [&, i]() -> net::awaitable<void> {
          try {
            new_job j = simple();
            if (i % 3 == 0) j.kind = "poison";
            ids.push_back((co_await store->put(j)).id);
          } catch (const std::system_error& e) {
            CHECK(e.code() == jobs::error::failed);
            CHECK(std::string{e.what()}.find("refused") != std::string::npos);
            ++failed;
          }
        },
        net::detached);
  }
  w.io().restart();
  w.io().run();
  CHECK(failed == 3);
  CHECK(ids.size() == 6);
  CHECK(w.wait(store->count()).front().of(job_state::waiting) == 7);
}

TEST_CASE("a store wakes those who wait in another one", "[jobs][realtime]") {
  sqlite_world w;
  auto options = w.options();
  options.poll = 1h;
  sqlite_store first{w.io(), w.file(), options};
  sqlite_store second{w.io(), w.file(), options};
  w.wait(first.count());
  w.wait(second.count());
  for (int round = 0; round < 3; ++round) {
    bool is_told = false;
    net::co_spawn(
        w.io(),
        [&]() -> net::awaitable<void> {
          const auto seen = co_await second.changed(0);
          co_await second.changed(seen);
          is_told = true;
        },
        net::detached);
    net::co_spawn(
        w.io(),
        [&]() -> net::awaitable<void> {
          const auto j = simple();
          co_await first.put(j);
        },
        net::detached);
    w.io().restart();
    w.io().run();
    CHECK(is_told);
  }
}

TEST_CASE("the leases of a process that is gone end, though the file was locked when that was noticed",
          "[jobs][realtime]") {
  sqlite_world w;
  auto options = w.options();
  options.poll = 5ms;
  options.busy_limit = 1ms;
  sqlite_store store{w.io(), w.file(), options};
  w.wait(store.put(simple()));
  CHECK(w.wait(store.claim({.limit = 1, .lease = 24h})).size() == 1);
  jobs::detail::sqlite_db own{w.file(), 5s};
  own.exec("BEGIN IMMEDIATE; UPDATE canigo_job SET holder=77 WHERE state=1");
  // What a process leaves behind that was killed.
  const std::string left_behind = w.file() + "-wake/77";
  {
    net::local::datagram_protocol::socket socket{w.io()};
    socket.open();
    socket.bind(left_behind);
  }
  while (std::filesystem::exists(left_behind)) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);  // in which it tries to end its leases
  own.exec("COMMIT");
  std::vector<claimed_job> again;
  for (int tries = 0; again.empty() && tries < 3600; ++tries) {
    std::this_thread::sleep_for(1ms);
    w.advance(1s);  // an attempt that crashed is followed by a pause
    again = w.wait(store.claim({.limit = 1, .lease = 24h}));
  }
  REQUIRE(again.size() == 1);
  CHECK(again.front().crashes == 1);
}

TEST_CASE("without sockets a store finds out by itself", "[jobs][realtime]") {
  sqlite_world w;
  // A folder that is a file holds no socket.
  std::ofstream{w.file() + "-wake"} << "in the way";
  auto options = w.options();
  options.poll = 20ms;
  sqlite_store first{w.io(), w.file(), options};
  sqlite_store second{w.io(), w.file(), options};
  w.wait(first.count());
  const auto seen = w.wait(second.changed(0));
  w.wait(first.put(simple()));
  CHECK(w.wait(second.changed(seen)) > seen);
}

TEST_CASE("a job is put in a transaction of the program", "[jobs][realtime]") {
  sqlite_world w;
  auto options = w.options();
  options.poll = 1h;
  sqlite_store store{w.io(), w.file(), options};
  sqlite_store elsewhere{w.io(), w.file(), options};
  w.wait(store.count());
  w.wait(elsewhere.count());
  jobs::detail::sqlite_db own{w.file(), 5s};
  own.exec("CREATE TABLE orders(id INTEGER PRIMARY KEY)");

  own.exec("BEGIN; INSERT INTO orders VALUES(1)");
  store.put_in(own.connection(), simple());
  own.exec("ROLLBACK");
  CHECK(w.wait(store.claim({.limit = 9})).empty());

  own.exec("BEGIN; INSERT INTO orders VALUES(2)");
  const auto id = store.put_in(own.connection(), simple("long " + std::string(9000, 'x'))).id;
  CHECK(w.wait(store.count()).empty());
  const auto seen = w.wait(elsewhere.changed(0));
  own.exec("COMMIT");
  store.wake();
  CHECK(w.wait(elsewhere.changed(seen)) > seen);
  const auto claimed = w.wait(elsewhere.claim({.limit = 9}));
  REQUIRE(claimed.size() == 1);
  CHECK(claimed.front().lease.id == id);
  CHECK(claimed.front().payload.size() == 9005);

  CHECK(refusal_of([&] { store.put_in(own.connection(), {}); }).find("new_job.kind") == 0);
}

TEST_CASE("the first transaction with a job may come before the store has opened its file", "[jobs]") {
  const bool is_committed = GENERATE(true, false);
  sqlite_world w;
  jobs::detail::sqlite_db own{w.file(), 5s};
  own.exec("CREATE TABLE orders(id INTEGER PRIMARY KEY)");
  own.exec("BEGIN IMMEDIATE; INSERT INTO orders VALUES(1)");
  {
    sqlite_store store{w.io(), w.file(), w.options()};
    CHECK(store.put_in(own.connection(), simple()).is_new);
    own.exec(is_committed ? "COMMIT" : "ROLLBACK");
    CHECK(w.wait(store.claim({.limit = 9})).size() == (is_committed ? 1 : 0));
  }
  sqlite_store again{w.io(), w.file(), w.options()};
  CHECK(w.wait(again.put(simple())).id == (is_committed ? 2 : 1));
}

TEST_CASE("a unique job of a transaction that is undone is no duplicate", "[jobs]") {
  sqlite_world w;
  sqlite_store store{w.io(), w.file(), w.options()};
  w.wait(store.count());
  new_job j = simple();
  j.unique_key = "order-7";
  jobs::detail::sqlite_db own{w.file(), 5s};
  own.exec("BEGIN");
  CHECK(store.put_in(own.connection(), j).is_new);
  own.exec("ROLLBACK");
  CHECK(w.wait(store.put(j)).is_new);
}

TEST_CASE("a store says what is wrong with its file, and goes on when it is mended", "[jobs]") {
  sqlite_world w;
  namespace fs = std::filesystem;
  SECTION("no folder") {
    const std::string folder = w.file() + "-folder";
    sqlite_store store{w.io(), folder + "/jobs.db", w.options()};
    const auto [code, text] = w.error_of(store.put(simple()));
    CHECK(code == jobs::error::cannot_open);
    CHECK(text == folder + "/jobs.db: SQLite's error 14, unable to open database file; make its folder, and let this " +
                      "process write there: the store can't be opened");
    fs::create_directory(folder);
    CHECK(w.wait(store.put(simple())).id == 1);
  }
  SECTION("no database") {
    std::ofstream{w.file()} << std::string(5000, 'x');
    sqlite_store store{w.io(), w.file(), w.options()};
    CHECK(w.error_of(store.count()).first == jobs::error::corrupt);
    fs::remove(w.file());
    CHECK(w.wait(store.put(simple())).id == 1);
  }
  SECTION("moved or removed") {
    const bool is_moved = GENERATE(false, true);
    sqlite_store store{w.io(), w.file(), w.options()};
    CHECK(w.wait(store.put(simple())).id == 1);
    CHECK(w.wait(store.put(simple())).id == 2);
    for (const char* part : {"", "-wal", "-shm"}) {
      is_moved ? fs::rename(w.file() + part, w.file() + ".old" + part) : static_cast<void>(fs::remove(w.file() + part));
    }
    const auto [code, text] = w.error_of(store.put(simple()));
    CHECK(code == jobs::error::cannot_open);
    CHECK(text.starts_with(w.file() + ": somebody has moved or removed it; "));
    CHECK(w.wait(store.put(simple())).id == 1);  // in a file that others see
    CHECK(w.wait(w.open()->put(simple())).id == 2);
  }
  SECTION("a newer version") {
    {
      w.wait(w.open()->put(simple()));
    }
    {
      jobs::detail::sqlite_db own{w.file(), 1s};
      own.exec("UPDATE canigo_schema SET version=99");
    }
    sqlite_store store{w.io(), w.file(), w.options()};
    const auto [code, text] = w.error_of(store.claim({}));
    CHECK(code == jobs::error::newer_schema);
    CHECK(text == w.file() + ": its tables are of version 99, and this is for 2; use a newer canigo: " +
                      "a newer version of canigo made the store");
  }
  SECTION("locked") {
    auto options = w.options();
    options.busy_limit = 5ms;
    sqlite_store store{w.io(), w.file(), options};
    w.wait(store.put(simple()));
    jobs::detail::sqlite_db own{w.file(), 1s};
    own.exec("BEGIN IMMEDIATE");
    const auto [code, text] = w.error_of(store.put(simple()));
    CHECK(code == jobs::error::locked);
    CHECK(text.find("database is locked; end long transactions of other processes on it, or raise busy_limit") !=
          std::string::npos);
    own.exec("ROLLBACK");
    CHECK(w.wait(store.put(simple())).id == 2);
  }
  SECTION("read only") {
    jobs::detail::sqlite_db own{w.file(), 1s};
    own.exec("CREATE TABLE t(x); PRAGMA query_only=ON");
    CHECK_THROWS_AS(own.exec("INSERT INTO t VALUES(1)"), std::system_error);
    try {
      own.exec("INSERT INTO t VALUES(1)");
    } catch (const std::system_error& e) {
      CHECK(e.code() == jobs::error::read_only);
    }
  }
}

TEST_CASE("a store refuses options outside their range", "[jobs]") {
  net::io_context io;
  const auto refused = [&](const std::string& file, const sqlite_store_options& o) {
    return refusal_of([&] { sqlite_store store{io, file, o}; });
  };
  CHECK(refused("", {}) == "sqlite_store.file is ; allowed: the name of a file: invalid argument");
  CHECK(refused(":memory:", {}) == "sqlite_store.file is :memory:; allowed: the name of a file: invalid argument");
  CHECK(refused("f", {.busy_limit = -1s}) ==
        "sqlite_store_options.busy_limit is -1s; allowed: 0 or more: invalid argument");
  CHECK(refused("f", {.poll = 0s}) == "sqlite_store_options.poll is 0s; allowed: more than 0: invalid argument");
}

TEST_CASE("a store in a file that nobody asks sleeps", "[jobs][realtime]") {
  sqlite_world w;
  auto options = w.options();
  options.poll = 1h;
  sqlite_store store{w.io(), w.file(), options};
  w.wait(store.put(simple()));
  w.wait(store.count());
  CHECK(processor_time_of([] { std::this_thread::sleep_for(500ms); }) < 100ms);
}

TEST_CASE("what changes nothing in a file is no news", "[jobs]") {
  sqlite_world w;
  auto options = w.options();
  options.poll = 1h;
  options.busy_limit = 0ms;
  sqlite_store store{w.io(), w.file(), options};
  w.wait(store.put(simple()));
  w.wait(store.count());  // after its first look at others
  const auto seen = w.wait(store.changed(0));
  const auto run = w.wait(store.claim({})).at(0).lease;
  CHECK(w.wait(store.extend(run, 1min, std::nullopt)).verdict == verdict::accepted);
  w.wait(store.next_due("default"));
  CHECK(w.wait(store.changed(0)) == seen);
  jobs::detail::sqlite_db own{w.file(), 5s};
  own.exec("BEGIN IMMEDIATE");
  CHECK(w.error_of(store.put(simple())).first == jobs::error::locked);  // and the store keeps its connection
  own.exec("ROLLBACK");
  w.wait(store.next_due("default"));
  CHECK(w.wait(store.changed(0)) == seen);
  w.wait(store.put(simple()));
  CHECK(w.wait(store.changed(0)) > seen);
}

TEST_CASE("a store in a file refuses a policy outside its range", "[jobs]") {
  sqlite_world w;
  auto options = w.options();
  options.policy.most_crashes = 0;
  CHECK(refusal_of([&] { sqlite_store store{w.io(), w.file(), options}; }).starts_with("store_policy.most_crashes"));
}

TEST_CASE("a store and its context may go in any order, with calls on the way", "[jobs]") {
  scratch_folder folder;
  const bool is_context_first = GENERATE(false, true);
  for (int round = 0; round < 20; ++round) {
    auto io = std::make_unique<net::io_context>();
    auto store = std::make_unique<sqlite_store>(*io, folder.file());
    for (int i = 0; i < 5; ++i) {
      net::co_spawn(
          *io,
          [&s = *store]() -> net::awaitable<void> {
            const auto j = simple();
            co_await s.put(j);
          },
          net::detached);
    }
    io->poll();
    if (is_context_first) {
      io.reset();
      store.reset();
    } else {
      store.reset();
      io->run();
    }
  }
}

TEST_CASE("a cancellation does not undo what was handed over", "[jobs]") {
  sqlite_world w;
  const auto store = w.open();
  w.wait(store->put(simple()));
  net::cancellation_signal signal;
  std::size_t claimed = 0;
  net::co_spawn(
      w.io(),
      [&]() -> net::awaitable<void> {
        claim_request r;
        claimed = (co_await store->claim(r)).size();
      },
      net::bind_cancellation_slot(signal.slot(), net::detached));
  w.io().restart();
  w.io().poll();
  signal.emit(net::cancellation_type::terminal);
  w.io().restart();
  w.io().run();
  CHECK(claimed == 1);
}
