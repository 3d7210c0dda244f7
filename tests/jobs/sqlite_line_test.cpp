// What the thread of a store in a file does, and what it does not do.

#include "canigo/jobs/error.hpp"

#include "../../lib/jobs/sqlite_db.hpp"
#include "faulty_files.hpp"
#include "sqlite_world.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/local/datagram_protocol.hpp>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace canigo;
using namespace canigo::jobs;
using namespace std::chrono_literals;

namespace {

new_job of_kind(std::string kind = "kind") { return {.kind = std::move(kind)}; }

/// A clock that counts how often it is asked, which is once in each transaction, and lets the thread stand still there.
class gated_clock {
 public:
  instant now() {
    std::unique_lock lock{mutex_};
    ++asked_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !is_closed_; });
    return instant{1'700'000'000s};
  }
  void close() {
    const std::lock_guard lock{mutex_};
    is_closed_ = true;
  }
  void open() {
    const std::lock_guard lock{mutex_};
    is_closed_ = false;
    changed_.notify_all();
  }
  void await(int asked) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return asked_ >= asked; });
  }
  int asked() {
    const std::lock_guard lock{mutex_};
    return asked_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_closed_ = false;
  int asked_ = 0;
};

/// A store that has looked at others, and does not do so again.
class gated_world : public sqlite_world {
 public:
  gated_world() {
    auto o = options();
    o.poll = 1h;
    o.busy_limit = 0ms;
    o.clock = [this] { return clock.now(); };
    store.emplace(io(), file(), o);
    wait(store->put(of_kind()));
    wait(store->count());
  }
  /// Begins calls that become one transaction.
  void together(const std::vector<std::function<net::awaitable<void>()>>& calls) {
    clock.close();
    const int asked = clock.asked();
    net::co_spawn(io(), [this]() -> net::awaitable<void> { co_await store->next_due("default"); }, net::detached);
    io().restart();
    io().poll();
    clock.await(asked + 1);
    for (const auto& call : calls) net::co_spawn(io(), call, net::detached);
    io().poll();
  }
  void let_go() {
    clock.open();
    io().restart();
    io().run();
  }
  void refuse_poison() {
    jobs::detail::sqlite_db own{file(), 1s};
    own.exec(
        "CREATE TRIGGER no_poison BEFORE INSERT ON canigo_job WHEN new.kind='poison' "
        "BEGIN SELECT RAISE(ABORT, 'refused'); END");
  }

  gated_clock clock;
  std::optional<sqlite_store> store;
};

}  // namespace

TEST_CASE("a call is one transaction in the file, and one that fails is tried once", "[jobs]") {
  gated_world w;
  w.refuse_poison();
  const auto transactions_of = [&](auto call) {
    const int before = w.clock.asked();
    call();
    w.wait(w.store->next_due("default"));  // after all that the thread did for the call
    return w.clock.asked() - before - 1;
  };
  CHECK(transactions_of([&] { w.wait(w.store->put(of_kind())); }) == 1);
  CHECK(transactions_of([&] { w.wait(w.store->count()); }) == 1);
  CHECK(transactions_of([&] { w.wait(w.store->claim({})); }) == 1);
  CHECK(transactions_of([&] { w.run(w.store->pause("q")); }) == 1);
  CHECK(transactions_of([&] { CHECK(w.error_of(w.store->put(of_kind("poison"))).first == jobs::error::failed); }) == 1);
  CHECK(transactions_of([&] { w.store->wake(); }) == 0);
}

TEST_CASE("calls that come together are one transaction, and again one each if one of them fails", "[jobs]") {
  gated_world w;
  w.refuse_poison();
  int asked = w.clock.asked();
  const auto look = [&]() -> net::awaitable<void> { co_await w.store->next_due("default"); };
  w.together({look, look, look});
  w.let_go();
  CHECK(w.clock.asked() == asked + 2);

  // What the failed one would have changed is no news.
  const auto seen = w.wait(w.store->changed(0));
  asked = w.clock.asked();
  std::error_code failed;
  const auto put = [&]() -> net::awaitable<void> {
    std::vector<new_job> list{of_kind(), of_kind("poison")};
    try {
      co_await w.store->put_all(std::move(list));
    } catch (const std::system_error& e) {
      failed = e.code();
    }
  };
  w.together({put, look});
  w.let_go();
  CHECK(failed == jobs::error::failed);
  CHECK(w.clock.asked() == asked + 4);
  CHECK(w.wait(w.store->changed(0)) == seen);
  CHECK(w.wait(w.store->count()).front().of(job_state::waiting) == 1);
}

TEST_CASE("an error that all calls would meet is met once for those that come together", "[jobs]") {
  faulty_files files;
  gated_world w;
  jobs::detail::sqlite_db own{w.file(), 0s};
  int failed = 0;
  const auto put = [&]() -> net::awaitable<void> {
    const new_job j = of_kind();
    try {
      co_await w.store->put(j);
    } catch (const std::system_error& e) {
      failed += e.code() == jobs::error::locked;
    }
  };
  w.together({put, put, put});
  own.exec("BEGIN IMMEDIATE");
  int refusals = 0;
  files.at_refusal([&] { ++refusals; });
  w.let_go();
  files.at_refusal(nullptr);
  CHECK(failed == 3);
  CHECK(refusals == 1);
  own.exec("ROLLBACK");
  CHECK(w.wait(w.store->put(of_kind())).is_new);
}

TEST_CASE("a store that opens its file anew has news", "[jobs]") {
  sqlite_world w;
  auto o = w.options();
  o.poll = 1h;
  const std::string folder = w.file() + "-folder";
  sqlite_store store{w.io(), folder + "/jobs.db", o};
  CHECK(w.error_of(store.next_due("default")).first == jobs::error::cannot_open);
  const auto seen = w.wait(store.changed(0));
  std::filesystem::create_directory(folder);
  w.wait(store.next_due("default"));
  CHECK(w.wait(store.changed(0)) > seen);
}

TEST_CASE("a store finds out by itself that its file was removed, and opens another", "[jobs][realtime]") {
  sqlite_world w;
  auto o = w.options();
  o.poll = 1ms;
  sqlite_store store{w.io(), w.file(), o};
  CHECK(w.wait(store.put(of_kind())).id == 1);
  CHECK(w.wait(store.put(of_kind())).id == 2);
  for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(w.file() + part);
  for (int tries = 0; !std::filesystem::exists(w.file()) && tries < 60'000; ++tries) {
    std::this_thread::sleep_for(1ms);
  }
  CHECK(w.wait(store.put(of_kind())).id == 1);
}

TEST_CASE("a store that can't open its file tries seldom while nobody asks", "[jobs][realtime]") {
  sqlite_world w;
  auto o = w.options();
  o.poll = 1h;
  const sqlite_store store{w.io(), w.file() + "-folder/jobs.db", o};
  CHECK(processor_time_of([] { std::this_thread::sleep_for(500ms); }) < 100ms);
}

TEST_CASE("the lost leases of a process are news for those who wait here, and are ended once", "[jobs]") {
  gated_world w;
  REQUIRE(w.wait(w.store->claim({.limit = 1, .lease = 24h})).size() == 1);
  jobs::detail::sqlite_db own{w.file(), 5s};
  own.exec("UPDATE canigo_job SET holder=77 WHERE state=1");
  const std::string folder = w.file() + "-wake";
  const std::string socket_of_store = std::filesystem::directory_iterator { folder } -> path();
  {
    net::local::datagram_protocol::socket left_behind{w.io()};
    left_behind.open();
    left_behind.bind(folder + "/77");
  }
  auto seen = w.wait(w.store->changed(0));
  net::local::datagram_protocol::socket newcomer{w.io()};
  newcomer.open();
  // The store looks who is there, and then has news.
  for (const char* message : {"h", "n"}) newcomer.send_to(net::buffer(message, 1), {socket_of_store});
  seen = w.wait(w.store->changed(seen));
  const int asked = w.clock.asked();
  w.store->wake();  // is news itself, and lets the store find out who is gone
  for (const auto both = seen + 2; seen < both;) seen = w.wait(w.store->changed(seen));
  CHECK_FALSE(std::filesystem::exists(folder + "/77"));
  w.store->wake();
  w.wait(w.store->next_due("default"));
  w.wait(w.store->next_due("default"));
  CHECK(w.clock.asked() == asked + 3);
}

TEST_CASE("a store rings another one that has come while it was at work", "[jobs]") {
  gated_world w;
  const auto put = [&]() -> net::awaitable<void> {
    const new_job j = of_kind("kind");
    co_await w.store->put(j);
  };
  w.together({put});
  auto o = w.options();
  o.poll = 1h;
  sqlite_store newcomer{w.io(), w.file(), o};
  std::uint64_t seen = 0;
  const auto look = [&]() -> net::awaitable<void> {
    co_await newcomer.next_due("default");
    co_await newcomer.next_due("default");  // after it has looked for changes
    seen = co_await newcomer.changed(0);
  };
  net::co_spawn(w.io(), look, net::detached);
  w.io().restart();
  while (seen == 0) w.io().run_one();
  w.clock.open();
  CHECK(w.wait(newcomer.changed(seen)) > seen);
}

TEST_CASE("only what must not be lost waits for the disk, if it is to", "[jobs]") {
  faulty_files files;
  sqlite_world w;
  for (const bool waits : {true, false}) {
    auto o = w.options();
    o.waits_for_disk = waits;
    sqlite_store store{w.io(), w.file(), o};
    w.wait(store.put(of_kind()));
    w.wait(store.put(of_kind()));
    const auto syncs_of = [&](auto call) {
      const auto before = files.syncs();
      call();
      return files.syncs() - before;
    };
    for (int i = 0; i < 2; ++i) {
      CHECK((syncs_of([&] { w.wait(store.put(of_kind())); }) > 0) == waits);
      CHECK(syncs_of([&] { CHECK(w.wait(store.claim({})).size() == 1); }) == 0);
      CHECK(syncs_of([&] { w.wait(store.count()); }) == 0);
    }
  }
}

TEST_CASE("no call leaves a reader behind that holds up the others", "[jobs]") {
  sqlite_world w;
  const auto store = w.open();
  jobs::detail::sqlite_db own{w.file(), 0ms};
  const auto is_left = [&](auto result) {
    static_cast<void>(result);
    own.exec("CREATE TABLE IF NOT EXISTS t(x); INSERT INTO t VALUES(1)");
    return own.sql("PRAGMA wal_checkpoint(TRUNCATE)").number() != 0;
  };
  new_job j{.kind = "kind", .payload = std::string(5000, 'x'), .expires_in = 24h, .max_attempts = 9, .unique_key = "k"};
  const auto id = w.wait(store->put(j)).id;
  CHECK_FALSE(is_left(w.wait(store->put(j))));
  for (int i = 0; i < 3; ++i) CHECK_FALSE(is_left(w.wait(store->put(of_kind("other")))));
  CHECK_FALSE(is_left(w.wait(store->count())));
  CHECK_FALSE(is_left(w.wait(store->look(id))));
  CHECK_FALSE(is_left(w.wait(store->look(99))));
  for (const std::size_t limit : {std::size_t{1}, std::size_t{9}}) {
    list_request r{.limit = limit};
    CHECK_FALSE(is_left(w.wait(store->list(r))));
  }
  CHECK_FALSE(is_left(w.wait(store->next_due("default"))));
  CHECK_FALSE(is_left(w.wait(store->next_due("nobody knows it"))));
  CHECK_FALSE(is_left(w.wait(store->clock())));
  const auto again = [&] { return w.wait(store->claim({})).at(0).lease; };
  const auto run = again();
  CHECK_FALSE(is_left(run));
  CHECK_FALSE(is_left(w.wait(store->extend(run, 1h, std::nullopt))));
  CHECK_FALSE(is_left(w.wait(store->extend({run.id, 1}, 1h, std::nullopt))));
  CHECK_FALSE(is_left(w.wait(store->snooze(run, 0s))));
  CHECK_FALSE(is_left(w.wait(store->give_back(again()))));
  CHECK_FALSE(is_left(w.wait(store->fail(again(), "it broke", 0s))));
  CHECK_FALSE(is_left(w.wait(store->fail(run, "it broke", 0s))));
  again();
  w.advance(1h);
  CHECK_FALSE(is_left(w.wait(store->claim({}))));
  CHECK_FALSE(is_left(w.wait(store->cancel(id))));
  CHECK_FALSE(is_left(w.wait(store->requeue(id))));
  CHECK_FALSE(is_left(w.wait(store->requeue(id))));
  CHECK_FALSE(is_left(w.wait(store->requeue(99))));
  CHECK_FALSE(is_left(w.wait(store->cancel(id))));
  trim_request all{.older_than = 0s};
  CHECK_FALSE(is_left(w.wait(store->trim(all))));
  CHECK_FALSE(is_left(w.wait(store->remove(id))));
}

TEST_CASE("the log of a file is copied into it now and then, and not each time", "[jobs]") {
  sqlite_world w;
  const auto store = w.open();
  const auto put = [&](int times) {
    for (int i = 0; i < times; ++i) w.wait(store->put({.kind = "kind", .payload = std::string(100'000, 'x')}));
  };
  const auto log = [&] { return std::filesystem::file_size(w.file() + "-wal"); };
  put(20);
  CHECK(log() > 2'000'000);
  CHECK(log() < 3'000'000);
  put(180);
  CHECK(log() > 3'000'000);
  CHECK(log() < 8'000'000);
}

TEST_CASE("a run whose attempts another program put to none ends with none", "[jobs]") {
  sqlite_world w;
  const auto store = w.open();
  const auto id = w.wait(store->put(of_kind("kind"))).id;
  jobs::detail::sqlite_db own{w.file(), 1s};
  const auto begin = [&] {
    const auto run = w.wait(store->claim({})).at(0).lease;
    own.exec("UPDATE canigo_job SET attempt=0");
    return run;
  };
  CHECK(w.wait(store->give_back(begin())) == verdict::accepted);
  CHECK(w.wait(store->look(id))->attempt == 0);
  CHECK(w.wait(store->snooze(begin(), 0s)) == verdict::accepted);
  CHECK(w.wait(store->look(id))->attempt == 0);
  begin();
  w.advance(1h);
  CHECK(w.wait(store->claim({})).empty());
  CHECK(w.wait(store->look(id))->attempt == 0);
}
