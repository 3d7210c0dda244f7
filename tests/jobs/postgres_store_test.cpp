#include "canigo/jobs/postgres_store.hpp"

#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"

#include "../../lib/jobs/postgres_link.hpp"
#include "../../lib/jobs/postgres_place.hpp"
#include "../../lib/jobs/postgres_query.hpp"
#include "ending_batch.hpp"
#include "foreign_rows.hpp"
#include "postgres_server.hpp"
#include "support/catch.hpp"
#include "support/said_by.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/ip/address_v4.hpp>
#include <asio/ip/tcp.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace canigo;
using namespace canigo::jobs;
using namespace std::chrono_literals;

namespace {

new_job plain(std::string payload = {}) { return {.kind = "kind", .payload = std::move(payload)}; }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the store in PostgreSQL passes every case", "[jobs][postgres]") {
  for (const auto& c : conformance::cases()) {
    DYNAMIC_SECTION(c.number << ": " << c.name) {
      postgres_world w;
      CHECK_NOTHROW(c.check(w));
    }
  }
}

TEST_CASE("calls that wait together are all carried out, and one that fails takes no other with it",
          "[jobs][postgres]") {
  postgres_world w;
  const auto store = w.open();
  int failed = 0;
  std::set<job_id> ids;
  for (int i = 0; i < 90; ++i) {
    net::co_spawn(
        w.io(),
        [&, i]() -> net::awaitable<void> {
          try {
            new_job j = plain();
            if (i % 30 == 0) j.kind = "no text: \xff";
            ids.insert((co_await store->put(j)).id);
          } catch (const std::system_error& e) {
            CHECK(e.code() == jobs::error::failed);
            CHECK(has(e.what(), "22021"));
            ++failed;
          }
        },
        net::detached);
  }
  w.io().restart();
  w.io().run();
  CHECK(failed == 3);
  CHECK(ids.size() == 87);
  CHECK(w.wait(store->count()).front().of(job_state::waiting) == 87);
}

TEST_CASE("stores that come to an empty database at once all work", "[jobs][postgres]") {
  postgres_world w;
  std::vector<std::shared_ptr<store>> stores;
  for (int i = 0; i < 5; ++i) stores.push_back(w.open());
  for (const auto& s : stores) w.wait(s->put(plain()));
  CHECK(w.wait(stores.front()->count()).front().of(job_state::waiting) == 5);
}

TEST_CASE("no job is given to two claims that go on at once", "[jobs][postgres][realtime]") {
  postgres_world w;
  const auto first = w.open();
  const auto second = w.open();
  w.wait(first->put_all(std::vector<new_job>(400, plain())));
  std::vector<job_id> got;
  const auto claim_all = [&](store& s) -> net::awaitable<void> {
    for (;;) {
      claim_request r{.limit = 3};
      const auto list = co_await s.claim(r);
      if (list.empty()) co_return;
      for (const auto& j : list) got.push_back(j.lease.id);
    }
  };
  for (int i = 0; i < 4; ++i) net::co_spawn(w.io(), claim_all(i % 2 == 0 ? *first : *second), net::detached);
  w.io().restart();
  w.io().run();
  CHECK(got.size() == 400);
  CHECK(std::set<job_id>(got.begin(), got.end()).size() == 400);
}

TEST_CASE("a job of a transaction is there if the transaction is, and services are told then", "[jobs][postgres]") {
  postgres_world w;
  postgres_store store{w.io(), w.url()};
  w.wait(store.count());
  auto& shop = w.session();
  shop.run("CREATE TABLE orders(id int)");
  shop.run("LISTEN canigo_jobs");
  const auto is_told = [&shop] {
    PGnotify* told = ::PQnotifies(shop.get());
    ::PQfreemem(told);
    return told != nullptr;
  };

  shop.run("BEGIN; INSERT INTO orders VALUES(1)");
  const auto rolled_back = store.put_in(shop.get(), plain("1"));
  shop.run("ROLLBACK");
  CHECK_FALSE(is_told());
  CHECK_FALSE(w.wait(store.look(rolled_back.id)));

  const auto seen = w.wait(store.changed(0));
  shop.run("BEGIN; INSERT INTO orders VALUES(2)");
  new_job unique = plain("2");
  unique.unique_key = "order-2";
  const auto kept = store.put_in(shop.get(), unique);
  CHECK(kept.is_new);
  CHECK_FALSE(store.put_in(shop.get(), unique).is_new);
  CHECK_THROWS_AS(store.put_in(shop.get(), {}), std::system_error);
  CHECK_FALSE(w.wait(store.look(kept.id)));
  CHECK_FALSE(is_told());
  shop.run("COMMIT");
  CHECK(is_told());
  CHECK(w.wait(store.changed(seen)) != seen);
  CHECK(w.wait(store.look(kept.id))->payload == "2");

  // As a program in another language does it.
  shop.run("INSERT INTO canigo_job(queue, kind, payload) VALUES('mail', 'confirm', 'a@example.org')");
  const auto claimed = w.wait(store.claim({.queue = "mail"}));
  REQUIRE(claimed.size() == 1);
  CHECK(claimed[0].payload == "a@example.org");
}

TEST_CASE("a job that the transaction's session refuses is refused for the server's reason", "[jobs][postgres]") {
  postgres_world w;
  postgres_store store{w.io(), w.url()};
  w.wait(store.count());
  auto& shop = w.session();
  shop.run("BEGIN READ ONLY");
  std::string said;
  try {
    (void)store.put_in(shop.get(), plain("1"));
  } catch (const std::system_error& e) {
    said = e.what();
  }
  shop.run("ROLLBACK");
  CAPTURE(said);
  CHECK(said.find("PostgreSQL's error 25006, cannot execute") != std::string::npos);
}

TEST_CASE("a put in one store wakes those who wait in another", "[jobs][postgres]") {
  postgres_world w;
  postgres_store_options o;
  o.poll = 1h;
  postgres_store first{w.io(), w.url(), o};
  postgres_store second{w.io(), w.url(), o};
  w.wait(first.count());
  w.wait(second.count());
  for (int round = 0; round < 3; ++round) {
    const auto seen = w.wait(second.changed(0));
    w.wait(first.put(plain()));
    CHECK(w.wait(second.changed(seen)) > seen);
  }
}

TEST_CASE("transactions that end the last jobs of a batch at once let one job begin", "[jobs][postgres]") {
  postgres_world w;
  const auto store = w.open();
  ending_batch batch{w, *store};
  // It waits for the other transaction, and other steps go on.
  CHECK(w.wait(store->look(batch.job_after()))->run_at == instant::max());
  CHECK_FALSE(batch.has_ended());
  batch.commit();
}

TEST_CASE("steps that wait together share statements, and each has its own answer", "[jobs][postgres]") {
  postgres_world w;
  const auto store = w.open();
  std::vector<put_answer> puts(40);
  int left = 40;
  const auto put = [&](int i) -> net::awaitable<void> {
    new_job j = plain("payload " + std::to_string(i));
    j.queue = i % 2 == 0 ? "even" : "odd";
    j.priority = i % 16;
    if (i % 5 == 0) j.unique_key = "key " + std::to_string(i % 10);
    if (i % 7 == 0) j.batch = "of seven";
    if (i % 3 == 0) j.expires_in = 1h;
    puts[static_cast<std::size_t>(i)] = co_await store->put(std::move(j));
    --left;
  };
  for (int i = 0; i < 40; ++i) net::co_spawn(w.io(), put(i), net::detached);
  w.io().restart();
  while (left > 0) w.io().run_one();
  for (int i = 0; i < 40; ++i) {
    const auto& answer = puts[static_cast<std::size_t>(i)];
    if (!answer.is_new) continue;
    const auto info = w.wait(store->look(answer.id)).value();
    CHECK(info.payload == "payload " + std::to_string(i));
    CHECK((info.queue == (i % 2 == 0 ? "even" : "odd") && info.priority == i % 16));
    CHECK(info.batch == (i % 7 == 0 ? "of seven" : ""));
    CHECK(info.deadline.has_value() == (i % 3 == 0));
    CHECK(info.max_attempts == 25);
  }
  CHECK(std::ranges::count(puts, true, &put_answer::is_new) == 34);

  const claim_request all{.queue = "even", .limit = 100};
  auto runs = w.wait(store->claim(claim_request{all}));
  REQUIRE(runs.size() > 10);
  std::vector<verdict> verdicts(runs.size());
  left = static_cast<int>(runs.size()) + 1;
  const auto end = [&](std::size_t i) -> net::awaitable<void> {
    lease l = runs[i].lease;
    if (i % 4 == 1) --l.token;
    verdicts[i] = co_await store->complete(l, "result " + std::to_string(i));
    --left;
  };
  const auto end_again = [&]() -> net::awaitable<void> {
    CHECK(co_await store->complete(runs[0].lease, "again") == verdict::superseded);
    --left;
  };
  for (std::size_t i = 0; i < runs.size(); ++i) net::co_spawn(w.io(), end(i), net::detached);
  net::co_spawn(w.io(), end_again(), net::detached);
  w.io().restart();
  while (left > 0) w.io().run_one();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto info = w.wait(store->look(runs[i].lease.id)).value();
    CHECK(verdicts[i] == (i % 4 == 1 ? verdict::superseded : verdict::accepted));
    CHECK(info.state == (i % 4 == 1 ? job_state::running : job_state::done));
    CHECK(info.result == (i % 4 == 1 ? "" : "result " + std::to_string(i)));
  }
}

TEST_CASE("a lock that another connection holds ends a step in time", "[jobs][postgres]") {
  postgres_world w;
  w.wait(w.open()->next_due("default"));  // so that nobody waits for tables to be made
  postgres_store_options o;
  o.lock_limit = 20ms;
  postgres_store store{w.io(), w.url(), o};
  w.session().run("BEGIN; LOCK TABLE canigo_job");
  const auto [code, text] = w.error_of(store.put(plain()));
  CHECK(code == jobs::error::locked);
  CHECK(has(text, "55P03"));
  CHECK(has(text, "lock_limit"));
  w.session().run("ROLLBACK");
  CHECK(w.wait(store.put(plain())).is_new);
}

TEST_CASE("a put that waits for a lock holds no other step up", "[jobs][postgres]") {
  postgres_world w;
  postgres_store_options o;
  o.lock_limit = 1h;
  postgres_store store{w.io(), w.url(), o};
  new_job blocked = plain();
  std::string end = "COMMIT";
  SECTION("of a key") { blocked.unique_key = "K"; }
  SECTION("of a key that is free after all") {
    blocked.unique_key = "K";
    end = "ROLLBACK";
  }
  SECTION("of a queue that is new") { blocked.queue = "fresh"; }
  const auto running = w.wait(store.put(plain())).id;
  const auto run = w.wait(store.claim({})).at(0).lease;
  w.session().run("BEGIN");
  const auto held = store.put_in(w.session().get(), blocked);
  std::vector<put_answer> answers;
  for (int i = 0; i < 8; ++i) {
    net::co_spawn(
        w.io(),
        [&]() -> net::awaitable<void> {
          const new_job j = blocked;
          answers.push_back(co_await store.put(j));
        },
        net::detached);
  }
  // Each of these would have to wait for an hour.
  for (int i = 0; i < 5; ++i) {
    CHECK(w.wait(store.extend(run, 1h, std::nullopt)).verdict == verdict::accepted);
    CHECK(w.wait(store.put(plain())).is_new);
    CHECK(w.wait(store.claim({})).size() == 1);
  }
  CHECK(w.wait(store.complete(run, "")) == verdict::accepted);
  CHECK(w.wait(store.look(running))->state == job_state::done);
  CHECK(answers.empty());
  w.session().run(end);
  w.io().restart();
  w.io().run();
  REQUIRE(answers.size() == 8);
  const auto added = std::ranges::count_if(answers, &put_answer::is_new);
  CHECK(added == (blocked.unique_key.empty() ? 8 : end == "ROLLBACK" ? 1 : 0));
  if (!blocked.unique_key.empty()) {
    CHECK((answers[7].id == held.id) == (end == "COMMIT"));
    for (const auto& a : answers) CHECK(a.id == answers[7].id);
  }
}

TEST_CASE("a store that is destroyed while a put waits for a lock ends soon", "[jobs][postgres]") {
  postgres_world w;
  w.wait(w.open()->count());
  w.session().run("BEGIN; INSERT INTO canigo_job(kind, unique_key) VALUES('k', 'K')");
  std::error_code code;
  {
    postgres_store_options o;
    o.lock_limit = 1h;
    postgres_store store{w.io(), w.url(), o};
    net::co_spawn(
        w.io(),
        [&]() -> net::awaitable<void> {
          new_job j = plain();
          j.unique_key = "K";
          try {
            co_await store.put(j);
          } catch (const std::system_error& e) {
            code = e.code();
          }
        },
        net::detached);
    w.io().restart();
    w.io().poll();
  }
  w.io().restart();
  w.io().run();
  CHECK(code == jobs::error::locked);
}

TEST_CASE("a transaction with the key of a job that runs does not hold up the job", "[jobs][postgres]") {
  postgres_world w;
  postgres_store_options o;
  o.lock_limit = 1h;
  postgres_store store{w.io(), w.url(), o};
  new_job unique = plain();
  unique.unique_key = "K";
  const auto id = w.wait(store.put(unique)).id;
  const auto run = w.wait(store.claim({})).at(0).lease;
  w.session().run("BEGIN");
  const auto again = store.put_in(w.session().get(), unique);
  CHECK(again.id == id);
  CHECK_FALSE(again.is_new);
  CHECK(w.wait(store.extend(run, 1h, std::nullopt)).verdict == verdict::accepted);
  CHECK(w.wait(store.complete(run, "")) == verdict::accepted);
  w.session().run("COMMIT");
}

TEST_CASE("what time does not mend fails at once, and says what to do", "[jobs][postgres]") {
  postgres_world w;
  auto& s = w.session();
  s.run("DROP ROLE IF EXISTS secret");
  s.run("DROP ROLE IF EXISTS guest");
  s.run("CREATE ROLE secret LOGIN PASSWORD 'right'");
  s.run("CREATE ROLE guest LOGIN");
  const std::string host = "host=" + postgres_world::server().folder();
  postgres_store_options o;
  o.reconnect_limit = 1h;  // what were tried again would not end
  const auto fails = [&](const std::string& url, jobs::error with, const std::vector<std::string>& parts) {
    postgres_store store{w.io(), url, o};
    for (int i = 0; i < 2; ++i) {
      const auto [code, text] = w.error_of(store.count());
      INFO(text);
      CHECK(code == with);
      for (const auto& p : parts) CHECK(has(text, p));
      CHECK_FALSE(has(text, "wr0ng"));
      CHECK_FALSE(has(text, "\n"));
      CHECK_FALSE(has(text, "; ;"));
      CHECK_FALSE(has(text, "FATAL"));
      CHECK_FALSE(has(text, "LOCATION"));
    }
  };
  fails(host + " user=secret password=wr0ng dbname=postgres", jobs::error::cannot_open,
        {"28P01", "password authentication failed", "postgresql://secret@" + postgres_world::server().folder(),
         "give the right password"});
  fails(host + " user=tester dbname=nowhere", jobs::error::cannot_open, {"3D000", "nowhere", "make the database"});
  fails(host + " user=nobody dbname=postgres", jobs::error::cannot_open, {"28000", "nobody"});
  fails(host + " user=guest dbname=postgres", jobs::error::cannot_open, {"42501", "grant"});
  fails(w.url() + " options='-c default_transaction_read_only=on'", jobs::error::read_only, {"25006", "primary"});

  const auto ok = w.open();
  w.wait(ok->count());
  s.run("UPDATE canigo_schema SET version = 99");
  fails(w.url(), jobs::error::newer_schema, {"version 99"});
}

TEST_CASE("a table that somebody dropped is named with what helps", "[jobs][postgres]") {
  postgres_world w;
  const auto store = w.open();
  w.wait(store->put(plain()));
  w.session().run("DROP TABLE canigo_job");
  const auto [code, text] = w.error_of(store->put(plain()));
  CHECK(code == jobs::error::failed);
  CHECK(has(text, "without any table canigo_"));
  w.session().run("DROP TABLE canigo_queue; DROP TABLE canigo_schema");
  CHECK(w.wait(store->put(plain())).is_new);
}

TEST_CASE("a server that can't be reached is waited for, and then named", "[jobs][postgres][realtime]") {
  postgres_world w;
  postgres_store_options o;
  o.reconnect_limit = 100ms;
  postgres_store store{w.io(), "postgresql://me:wr0ng@%2Fnowhere:77/shop", o};
  CHECK(store.where() == "postgresql://me@/nowhere:77/shop");
  const auto [code, text] = w.error_of(store.count());
  CHECK(code == jobs::error::cannot_open);
  CHECK(has(text, "postgresql://me@/nowhere:77/shop"));
  CHECK(has(text, "No such file or directory"));
  CHECK_FALSE(has(text, "; ;"));
  CHECK_FALSE(has(text, "wr0ng"));
}

TEST_CASE("a call does not wait for a server that can't be reached for longer than it was told to",
          "[jobs][postgres][realtime]") {
  postgres_world w;
  net::ip::tcp::acceptor silent{w.io(), {net::ip::address_v4::loopback(), 0}};  // takes connections, and says nothing
  postgres_store_options o;
  o.reconnect_limit = 3s;
  postgres_store store{
      w.io(), "postgresql://tester@127.0.0.1:" + std::to_string(silent.local_endpoint().port()) + "/postgres", o};
  std::vector<std::chrono::steady_clock::time_point> ends;
  const auto ask = [&] {
    net::co_spawn(
        w.io(),
        [&]() -> net::awaitable<void> {
          try {
            co_await store.next_due("default");
          } catch (const std::system_error& e) {
            CHECK(e.code() == jobs::error::cannot_open);
          }
          ends.push_back(std::chrono::steady_clock::now());
        },
        net::detached);
    w.io().restart();
    w.io().poll();
  };
  const auto begin = std::chrono::steady_clock::now();
  ask();
  while (std::chrono::steady_clock::now() - begin < 500ms) std::this_thread::yield();
  ask();  // while the first one waits
  w.io().run();
  REQUIRE(ends.size() == 2);
  CHECK(ends[0] - begin >= 2900ms);
  CHECK(ends[1] - ends[0] < 2s);
}

TEST_CASE("a URL that is none is refused without being told", "[jobs][postgres]") {
  net::io_context io;
  for (const std::string url :
       {"postgresql://me:s3cret@host/x?nothing=1", "user=me passwort=s3cret", "s3cret", "user='s3cret"}) {
    try {
      postgres_store store{io, url};
      FAIL("it was taken");
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::invalid_argument);
      CHECK(has(e.what(), "postgres_store.url"));
      CHECK_FALSE(has(e.what(), "s3cret"));
    }
  }
}

TEST_CASE("options outside their range are named, and their ends are taken", "[jobs][postgres]") {
  net::io_context io;
  const auto refused = [&io](const postgres_store_options& o) -> std::string {
    try {
      const postgres_store store{io, "host=/nowhere", o};
    } catch (const std::system_error& e) {
      return said_by(e);
    }
    return {};
  };
  const std::string lock = "postgres_store_options.lock_limit is 999999ns; allowed: 1ms or more: invalid argument";
  CHECK(refused({.lock_limit = 1ms - 1ns}) == lock);
  CHECK(refused({.lock_limit = 1ms}).empty());
  CHECK(refused({.reconnect_limit = -1ns}) ==
        "postgres_store_options.reconnect_limit is -1ns; allowed: 0 or more: invalid argument");
  CHECK(refused({.reconnect_limit = 0ns}).empty());
  CHECK(refused({.answer_limit = 0ns}) ==
        "postgres_store_options.answer_limit is 0s; allowed: more than 0: invalid argument");
  CHECK(refused({.answer_limit = 1ns}).empty());
  CHECK(refused({.poll = 0ns}) == "postgres_store_options.poll is 0s; allowed: more than 0: invalid argument");
  CHECK(refused({.poll = 1ns}).empty());
}

TEST_CASE("a store goes on after the server was restarted, and while its connections are ended",
          "[jobs][postgres][realtime]") {
  postgres_server server;
  postgres_world w;
  postgres_store_options o;
  o.reconnect_limit = 5min;
  postgres_store store{w.io(), server.url(), o};
  const auto id = w.wait(store.put(plain("kept"))).id;
  const auto run = w.wait(store.claim({.limit = 1})).at(0);

  server.stop();
  std::optional<put_answer> answer;
  net::co_spawn(
      w.io(),
      [&]() -> net::awaitable<void> {
        const new_job j = plain();
        answer = co_await store.put(j);  // it waits for the server
      },
      net::detached);
  w.io().restart();
  w.io().poll();
  std::this_thread::sleep_for(100ms);
  server.start();
  w.io().run();
  CHECK(answer);
  CHECK(w.wait(store.complete(run.lease, "done")) == verdict::accepted);
  CHECK(w.wait(store.look(id))->result == "done");

  server.kill();
  server.start();
  CHECK(w.wait(store.look(id))->payload == "kept");

  postgres_session other{server.url()};
  for (int i = 0; i < 20; ++i) {
    other.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'canigo'");
    try {
      w.wait(store.put(plain()));
    } catch (const std::system_error& e) {
      CHECK(e.code() == jobs::error::unknown_outcome);
    }
  }
  CHECK(w.wait(store.count()).front().of(job_state::waiting) >= 1);
}

TEST_CASE("a step that was ended before it wrote is done again", "[jobs][postgres][realtime]") {
  postgres_world w;
  const auto store = w.open();
  w.wait(store->count());
  w.session().run("BEGIN; LOCK TABLE canigo_job");
  postgres_session other{w.url()};  // pg_stat_activity stays the same within a transaction
  std::optional<put_answer> answer;
  net::co_spawn(
      w.io(),
      [&]() -> net::awaitable<void> {
        const new_job j = plain();
        answer = co_await store->put(j);
      },
      net::detached);
  w.io().restart();
  w.io().poll();
  const std::string ends =
      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
  while (other.run(ends) == "0") std::this_thread::yield();
  w.session().run("ROLLBACK");
  w.io().run();
  REQUIRE(answer);
  CHECK(w.wait(store->count()).front().of(job_state::waiting) == 1);
}

TEST_CASE("a claim whose answer is lost is found again, and counts as none", "[jobs][postgres]") {
  // What is sent after a connection was lost in the middle: the claim with the same mark is undone first.
  postgres_world w;
  const auto store = w.open();
  w.wait(store->put(plain()));
  const auto first = w.wait(store->claim({}));
  REQUIRE(first.size() == 1);
  const auto undo = jobs::detail::text_of(jobs::detail::postgres_statement::undo_claim);
  const auto mark = w.session().run("SELECT holder FROM canigo_job");
  std::string text = undo;
  text.replace(text.find("$1"), 2, mark);
  w.session().run(text);
  const auto second = w.wait(store->claim({}));
  REQUIRE(second.size() == 1);
  CHECK(second[0].attempt == 1);
  CHECK(second[0].crashes == 0);
  CHECK(second[0].lease.token > first[0].lease.token);
}

TEST_CASE("a claim that a crash of the server took back has a token that nobody gets", "[jobs][postgres]") {
  postgres_world w;
  const auto store = w.open();
  w.wait(store->put(plain()));
  w.session().run("CREATE TABLE before_claim AS SELECT state, token, attempt, holder, lease_until FROM canigo_job");
  const auto lost = w.wait(store->claim({}));
  REQUIRE(lost.size() == 1);
  w.session().run(
      "UPDATE canigo_job j SET state = b.state, token = b.token, attempt = b.attempt, holder = b.holder, "
      "lease_until = b.lease_until FROM before_claim b");
  const auto second = w.wait(store->claim({}));
  REQUIRE(second.size() == 1);
  CHECK(w.wait(store->complete(lost[0].lease, "of the first")) == verdict::superseded);
  CHECK(w.wait(store->complete(second[0].lease, "of the second")) == verdict::accepted);
}

TEST_CASE("a number that a crash of the server saw acknowledged is not given again", "[jobs][postgres][realtime]") {
  postgres_server server;
  postgres_world w;
  postgres_store_options o;
  o.reconnect_limit = 1min;
  postgres_store store{w.io(), server.url(), o};
  std::set<job_id> ids;
  for (int crashes = 0; crashes < 3; ++crashes) {
    // Beyond the numbers that the server sets aside at once.
    for (int i = 0; i < 40; ++i) CHECK(ids.insert(w.wait(store.put(plain())).id).second);
    server.kill();
    server.start();
  }
  CHECK(ids.insert(w.wait(store.put(plain())).id).second);
}

TEST_CASE("a failover that lost a job lets no result of it be taken for that of another", "[jobs][postgres]") {
  postgres_world w;
  const auto store = w.open();
  const auto lost = w.wait(store->put(plain("lost"))).id;
  const auto old = w.wait(store->claim({})).at(0).lease;
  // The standby has not heard of the job, nor of its number.
  w.session().run("DELETE FROM canigo_job");
  w.session().run("ALTER TABLE canigo_job ALTER COLUMN id RESTART WITH " + std::to_string(lost));
  REQUIRE(w.wait(store->put(plain("other"))).id == lost);
  CHECK(w.wait(store->complete(old, "of the lost one")) == verdict::superseded);
  const auto run = w.wait(store->claim({})).at(0);
  CHECK(run.payload == "other");
  CHECK(run.lease.token > old.token);
  CHECK(w.wait(store->complete(old, "of the lost one")) == verdict::superseded);
  CHECK(w.wait(store->extend(old, 1s, std::nullopt)).verdict == verdict::superseded);
  CHECK(w.wait(store->complete(run.lease, "its own")) == verdict::accepted);
  CHECK(w.wait(store->look(lost))->result == "its own");
}

TEST_CASE("values that another program wrote stop no other job, and are named", "[jobs][postgres]") {
  postgres_world w;
  postgres_store_options o;
  o.policy.after_crash = backoff::constant(0s);
  postgres_store store{w.io(), w.url(), o};
  w.wait(store.count());
  auto& s = w.session();
  for (const auto& f : foreign_rows) {
    CAPTURE(f.column, f.value);
    // Tables of an earlier version check nothing.
    s.run("ALTER TABLE canigo_job DROP CONSTRAINT IF EXISTS canigo_job_" + f.column + "_check");
    const auto id =
        std::stoll(s.run("INSERT INTO canigo_job(kind, " + f.column + ") VALUES('bad', " + f.value + ") RETURNING id"));
    const auto good = w.wait(store.put(plain())).id;
    const auto claimed = w.wait(store.claim({.limit = 9}));
    REQUIRE(claimed.size() == 1);
    CHECK(claimed[0].lease.id == good);
    CHECK(w.wait(store.complete(claimed[0].lease, "")) == verdict::accepted);
    CHECK(w.wait(store.next_due("default")) > 0s);  // or the service would ask again and again
    if (!f.range.empty()) {
      const auto [code, text] = w.error_of(store.look(id));
      CHECK(code == jobs::error::failed);
      CHECK(has(text, "job " + std::to_string(id) + ": " + f.column + " is " + f.value));
      CHECK(has(text, f.range));
      CHECK(w.error_of(store.list({})).second == text);
    }
    if (f.column == "state") CHECK(has(w.error_of(store.count()).second, "queue default: state is " + f.value));
    CHECK(w.wait(store.remove(id)) == remove_answer::removed);
  }
  // Numbers that a run has to raise, and a history that can't be added to.
  s.run(
      "INSERT INTO canigo_job(kind, state, lease_until, attempt, crashes, history) VALUES"
      "('a', 1, '-infinity', 1, 2147483647, '{}'), ('b', 1, '-infinity', 1, 0, '{{a},{b}}')");
  CHECK(w.wait(store.claim({})).size() == 1);
  const auto counts = w.wait(store.count()).front();
  CHECK(counts.of(job_state::running) == 1);
  CHECK(counts.of(job_state::dead) == 1);
  s.run("INSERT INTO canigo_job(kind, run_at) VALUES('old', '-infinity')");
  CHECK(w.wait(store.count()).front().oldest == duration::max());
}

TEST_CASE("new tables take no value that a store can't read", "[jobs][postgres]") {
  postgres_world w;
  w.wait(w.open()->count());
  for (const std::string value : {"state) VALUES('k', 5", "token) VALUES('k', -1", "attempt) VALUES('k', 2147483647",
                                  "max_attempts) VALUES('k', -1", "crashes) VALUES('k', -1", "snoozes) VALUES('k', -1",
                                  "priority) VALUES('k', 16"}) {
    CAPTURE(value);
    CHECK_THROWS(w.session().run("INSERT INTO canigo_job(kind, " + value + ")"));
  }
}

TEST_CASE("a count that takes long holds no other step up, and ends", "[jobs][postgres]") {
  postgres_world w;
  postgres_store_options o;
  o.lock_limit = 1h;
  SECTION("when it can") { o.answer_limit = 1h; }
  SECTION("when the server may take no longer") { o.answer_limit = 500ms; }
  postgres_store store{w.io(), w.url(), o};
  w.wait(store.put(plain()));
  w.session().run("CREATE TABLE gate AS SELECT false AS is_open");
  w.session().run(
      "CREATE FUNCTION slow(n bigint) RETURNS bigint LANGUAGE plpgsql AS "
      "'BEGIN LOOP EXIT WHEN (SELECT is_open FROM gate); PERFORM pg_sleep(0.01); END LOOP; RETURN n + 1; END'");
  w.session().run("CREATE AGGREGATE count(*) (SFUNC = slow, STYPE = bigint, INITCOND = '0')");
  std::optional<std::vector<queue_count>> counts;
  std::pair<std::error_code, std::string> failed;
  net::co_spawn(
      w.io(),
      [&]() -> net::awaitable<void> {
        try {
          counts = co_await store.count();
        } catch (const std::system_error& e) {
          failed = {e.code(), e.what()};
        }
      },
      net::detached);
  w.io().restart();
  w.io().poll();
  for (int i = 0; i < 5; ++i) {
    CHECK(w.wait(store.put(plain())).is_new);
    const auto run = w.wait(store.claim({})).at(0).lease;
    CHECK(w.wait(store.extend(run, 1h, std::nullopt)).verdict == verdict::accepted);
    CHECK(w.wait(store.complete(run, "")) == verdict::accepted);
  }
  CHECK_FALSE(counts);
  if (o.answer_limit == 1h) w.session().run("UPDATE gate SET is_open = true");
  w.io().restart();
  w.io().run();
  if (o.answer_limit == 1h) {
    REQUIRE(counts);
    CHECK(counts->front().queue == "default");
  } else {
    CHECK(failed.first == jobs::error::locked);
    CHECK(has(failed.second, "answer_limit"));
    const std::string left =
        "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%RECURSIVE ready%' ";
    CHECK(w.session().run(left + "AND pid <> pg_backend_pid() AND query NOT LIKE '%pg_stat_activity%'").empty());
  }
}

TEST_CASE("counts that follow each other share a connection", "[jobs][postgres]") {
  postgres_world w;
  postgres_store_options o;
  o.poll = 10s;
  postgres_store store{w.io(), w.url() + " application_name=counts", o};
  const auto connections = [&] {
    return w.session().run(
        "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE application_name = 'counts'");
  };
  w.wait(store.put(plain()));
  w.wait(store.count());
  const std::string first = connections();
  CHECK(std::ranges::count(first, ' ') == 1);
  for (int i = 0; i < 10; ++i) {
    w.wait(store.count());
    CHECK(connections() == first);
  }
}

TEST_CASE("a store that nobody asks listens to others, and sleeps", "[jobs][postgres][realtime]") {
  postgres_world w;
  postgres_store_options o;
  o.poll = 1h;
  postgres_store store{w.io(), w.url() + " application_name=quiet", o};
  const std::string connections =
      "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'quiet' AND state = 'idle'";
  while (w.session().run(connections) != "1") std::this_thread::yield();
  CHECK(processor_time_of([] { std::this_thread::sleep_for(500ms); }) < 100ms);
  w.wait(store.put(plain()));
  CHECK(processor_time_of([] { std::this_thread::sleep_for(500ms); }) < 100ms);
}

TEST_CASE("what changes nothing in a database is no news", "[jobs][postgres]") {
  postgres_world w;
  postgres_store_options o;
  o.poll = 1h;
  postgres_store store{w.io(), w.url(), o};
  w.wait(store.put(plain()));
  const auto run = w.wait(store.claim({})).at(0).lease;
  const auto seen = w.wait(store.changed(0));
  for (int i = 0; i < 20; ++i) {
    CHECK(w.wait(store.extend(run, 1min, std::nullopt)).verdict == verdict::accepted);
    w.session().run("SELECT pg_sleep(0.005)");  // so that its thread has nothing to do now and then
  }
  CHECK(w.wait(store.changed(0)) == seen);
}

TEST_CASE("who finds tables of this version waits for nobody who may change them", "[jobs][postgres]") {
  postgres_world w;
  w.wait(w.open()->next_due("default"));
  w.session().run("SELECT pg_advisory_lock(109266741946223)");
  postgres_store_options o;
  o.lock_limit = 1h;
  o.answer_limit = 1h;
  postgres_store store{w.io(), w.url(), o};
  CHECK(w.wait(store.put(plain())).is_new);
  w.session().run("SELECT pg_advisory_unlock_all()");
}

TEST_CASE("a list has the connection of counts", "[jobs][postgres]") {
  postgres_world w;
  postgres_store store{w.io(), w.url() + " application_name=lists"};
  const auto connections = [&] {
    return w.session().run("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lists'");
  };
  w.wait(store.put(plain()));
  CHECK(connections() == "1");
  list_request all;
  CHECK(w.wait(store.list(std::move(all))).size() == 1);
  CHECK(connections() == "2");
  w.wait(store.count());
  CHECK(connections() == "2");
}

TEST_CASE("a step that the server refuses for good is tried once", "[jobs][postgres]") {
  postgres_world w;
  postgres_store store{w.io(), w.url()};
  new_job j = plain();
  j.kind = "\xfe\xfa";
  CHECK(w.error_of(store.put(std::move(j))).first == jobs::error::failed);
  std::ifstream log{postgres_world::server().folder() + "/log"};
  const std::string text{std::istreambuf_iterator<char>{log}, {}};
  const std::string complaint = "ERROR:  invalid byte sequence for encoding \"UTF8\": 0xfe";
  const auto first = text.find(complaint);
  REQUIRE(first != text.npos);
  CHECK(text.find(complaint, first + 1) == text.npos);
}

TEST_CASE("the connection for counts is closed a while after the last one", "[jobs][postgres][realtime]") {
  postgres_world w;
  postgres_store_options o;
  o.poll = 50ms;
  postgres_store store{w.io(), w.url() + " application_name=closed", o};
  const std::string connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'closed'";
  for (int i = 0; i < 2; ++i) {
    const auto asked_at = std::chrono::steady_clock::now();
    w.wait(store.count());
    while (w.session().run(connections) != "1") std::this_thread::yield();
    CHECK(std::chrono::steady_clock::now() - asked_at >= 2 * o.poll);
  }
}

TEST_CASE("a change of the tables that waits for others sleeps, and looks now and then whether to give up",
          "[jobs][postgres]") {
  postgres_world w;
  const jobs::detail::postgres_place place{w.url()};
  postgres_session other{w.url()};
  other.run("BEGIN; CREATE TABLE canigo_job(id int)");
  int looks = 0;
  std::string said;
  const auto begun = std::chrono::steady_clock::now();
  try {
    const jobs::detail::postgres_link never{place,
                                            {.connect = 1h,
                                             .answer = 1h,
                                             .statement = duration::max(),
                                             .lock = 1h,
                                             .step_lock = 1h,
                                             .listens = false,
                                             .gives_up = [&] { return ++looks == 4; }}};
  } catch (const jobs::detail::postgres_lost& e) {
    said = e.what();
    CHECK_FALSE(e.is_unknown);
  }
  CHECK(has(said, "the store was closed while its tables were changed"));
  CHECK(looks == 4);
  CHECK(std::chrono::steady_clock::now() - begun >= 200ms);
}

TEST_CASE("what libpq says of a connection names the state and the message", "[jobs][postgres]") {
  using jobs::detail::error_of_verbose;
  const std::string refused =
      "connection to server at \"db\", port 5432 failed: FATAL:  28000: role \"x\" may not\nLOCATION:  auth.c:1\n";
  const auto e = error_of_verbose("place", refused, true);
  CHECK(e.state() == "28000");
  CHECK(has(e.what(), "PostgreSQL's error 28000, role \"x\" may not; let this user in"));
  CHECK_FALSE(has(e.what(), "LOCATION"));
  CHECK(error_of_verbose("place", "FATAL:  odd:  9ZA09: text", false).state() == "9ZA09");
  CHECK(error_of_verbose("place", "FATAL:  00000: ", false).state() == "00000");
  for (const char* none : {"FATAL:  9ZA0:  text", "FATAL:  9ZA09:text", "FATAL:  9Za09: text", "FATAL:  9ZA09",
                           "9ZA09: ", "FATAL:  9ZA090: text", ""}) {
    CAPTURE(none);
    const auto unnamed = error_of_verbose("place", none, false);
    CHECK(unnamed.state().empty());
    CHECK(unnamed.code() == jobs::error::cannot_open);
    CHECK(error_of_verbose("place", none, true).state() == "28P01");
  }
}

TEST_CASE("puts wait for the same lock by their key, or by their queue without one", "[jobs][postgres]") {
  using jobs::detail::share_a_lock;
  const auto of = [](std::string queue, std::string key) {
    return new_job{.queue = std::move(queue), .kind = "kind", .unique_key = std::move(key)};
  };
  CHECK(share_a_lock({of("a", "")}, {of("a", "")}));
  CHECK_FALSE(share_a_lock({of("a", "")}, {of("b", "")}));
  CHECK(share_a_lock({of("a", "k")}, {of("b", "k")}));
  CHECK_FALSE(share_a_lock({of("a", "k")}, {of("a", "l")}));
  CHECK_FALSE(share_a_lock({of("a", "k")}, {of("a", "")}));
  CHECK(share_a_lock({of("a", ""), of("a", "k")}, {of("b", ""), of("c", "k")}));
  CHECK_FALSE(share_a_lock({}, {of("a", "")}));
}

TEST_CASE("puts of different keys that others lock hold no other step up", "[jobs][postgres]") {
  postgres_world w;
  postgres_store_options o;
  o.lock_limit = 1h;
  postgres_store store{w.io(), w.url(), o};
  w.wait(store.put(plain()));
  const auto run = w.wait(store.claim({})).at(0).lease;
  w.session().run("BEGIN");
  int left = 6;
  for (int i = 0; i < 6; ++i) {
    new_job j = plain();
    j.unique_key = "key " + std::to_string(i);
    (void)store.put_in(w.session().get(), j);
    const auto put = [&store, &left, j]() -> net::awaitable<void> {
      new_job mine = j;
      co_await store.put(std::move(mine));
      --left;
    };
    net::co_spawn(w.io(), put, net::detached);
  }
  for (int i = 0; i < 5; ++i) CHECK(w.wait(store.extend(run, 1h, std::nullopt)).verdict == verdict::accepted);
  CHECK(left == 6);
  w.session().run("COMMIT");
  w.io().restart();
  while (left > 0) w.io().run_one();
}

TEST_CASE("puts that wait together are one statement, and so are the ends of jobs", "[jobs][postgres]") {
  postgres_world w;
  postgres_store store{w.io(), w.url("-c log_statement=all")};
  std::ifstream log{postgres_world::server().folder() + "/log"};
  const auto new_lines = [&log] {
    log.clear();
    return std::string{std::istreambuf_iterator<char>{log}, {}};
  };
  new_lines();
  std::vector<new_job> jobs(200, plain());
  jobs[1].payload = std::string(64 << 10, 'x');
  w.wait(store.put_all(std::move(jobs)));
  const std::string puts = new_lines();
  const std::string put = "INSERT INTO canigo_job(";
  CHECK(puts.find(put) != puts.npos);
  CHECK(puts.find(put) == puts.rfind(put));
  const auto runs = w.wait(store.claim({.limit = 200}));
  int left = 0;
  const auto end = [&](lease l) -> net::awaitable<void> {
    co_await store.complete(l, "result");
    --left;
  };
  for (const auto& r : runs) {
    ++left;
    net::co_spawn(w.io(), end(r.lease), net::detached);
  }
  w.io().restart();
  while (left > 0) w.io().run_one();
  CHECK(has(new_lines(), "result = ($3::bytea[])[array_position($1::int8[], id)]"));
}

TEST_CASE("a count ends at a number, and says so", "[jobs][postgres]") {
  postgres_world w;
  const auto store = w.open();
  w.wait(store->count());
  const auto insert = [&](const std::string& queue, int state, std::size_t jobs) {
    w.session().run("INSERT INTO canigo_job(queue, kind, state, finished_at, lease_until) SELECT '" + queue +
                    "', 'k', " + std::to_string(state) + ", now(), now() FROM generate_series(1, " +
                    std::to_string(jobs) + ")");
  };
  constexpr std::size_t many = most_counted + 5;
  insert("a", 0, many);
  insert("a", 2, many);
  insert("a", 3, 2);
  insert("b", 1, 3);
  insert("b", 4, most_counted - 1);
  const auto counts = w.wait(store->count());
  REQUIRE(counts.size() == 2);
  CHECK(counts[0].queue == "a");
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
}

TEST_CASE("no step but a list reads all jobs, however many there are", "[jobs][postgres]") {
  postgres_world w;
  const auto store = w.open();
  w.wait(store->put(plain()));
  auto& s = w.session();
  // Nearly all wait and are due: a tenth of them is what a claim is planned for.
  s.run(
      "INSERT INTO canigo_job(kind, state, run_at, priority, deadline, lease_until, finished_at) SELECT 'kind', "
      "CASE WHEN i % 30 = 0 THEN 1 + i / 30 % 2 ELSE 0 END, now(), i % 3, CASE WHEN i % 30 = 1 THEN now() END, "
      "CASE WHEN i % 60 = 0 THEN now() END, now() FROM generate_series(1, 30000) i");
  s.run("ANALYZE canigo_job");
  // As a statement is planned that was prepared: for any arguments.
  s.run("SET plan_cache_mode = force_generic_plan");
  using statement = jobs::detail::postgres_statement;
  const std::pair<statement, const char*> steps[] = {
      {statement::claim, "'', 1, 1, 1"}, {statement::reap, "1, 1, '{1}', '{1}', '1'"},
      {statement::expire, "1, '1'"},     {statement::next_due, "''"},
      {statement::complete, "1, 1, ''"}, {statement::complete_many, "'{1}', '{1}', '{1}'"},
      {statement::fail, "1, 1, '', 1"},  {statement::extend, "1, 1, 1, NULL"},
      {statement::requeue, "1"},         {statement::list_unwell, "1, '', 3, 1, ''"},
      {statement::count, "100"},         {statement::settle_batch, "'b'"}};
  for (const auto& [step, arguments] : steps) {
    s.run("PREPARE step AS " + jobs::detail::text_of(step));
    const std::string plan = s.run("EXPLAIN (FORMAT json) EXECUTE step(" + std::string{arguments} + ")");
    CAPTURE(plan);
    for (auto at = plan.find("Seq Scan"); at != plan.npos; at = plan.find("Seq Scan", at + 1)) {
      const std::string relation = "\"Relation Name\": \"";
      CHECK_FALSE(plan.substr(plan.find(relation, at) + relation.size()).starts_with("canigo_job\""));
    }
    // A count joins a few rows for each queue.
    CHECK_FALSE((step != statement::count && (has(plan, "Merge Join") || has(plan, "Hash Join"))));
    // A join is planned for a tenth of those that wait, and reads all jobs once there are enough of them.
    const bool is_of_many = step == statement::complete_many || step == statement::claim || step == statement::reap ||
                            step == statement::expire;
    CHECK(has(plan, "(id = ANY (") == is_of_many);
    s.run("DEALLOCATE step");
  }
}

TEST_CASE("a store that is destroyed while its server is gone ends soon", "[jobs][postgres][realtime]") {
  net::io_context io;
  postgres_store_options o;
  o.reconnect_limit = 1h;
  postgres_store store{io, "host=/nowhere", o};
  net::co_spawn(io, [&]() -> net::awaitable<void> { co_await store.count(); }, net::detached);
  io.poll();
}

TEST_CASE("a store that nobody asks looks for its server less and less often", "[jobs][postgres][realtime]") {
  net::io_context io;
  net::ip::tcp::acceptor acceptor{io, {net::ip::address_v4::loopback(), 0}};
  std::atomic<int> dials = 0;
  const std::function<void()> hang_up = [&] {
    acceptor.async_accept([&](std::error_code ec, const net::ip::tcp::socket&) {
      if (ec) return;
      ++dials;
      hang_up();
    });
  };
  hang_up();
  const postgres_store store{
      io, "host=127.0.0.1 dbname=x port=" + std::to_string(acceptor.local_endpoint().port()) + " sslmode=disable"};
  io.run_for(600ms);
  CHECK(dials >= 1);
  CHECK(dials <= 20);  // after 50, 100, 200 and 400 ms
}

TEST_CASE("the history of a job keeps its last entries", "[jobs][postgres]") {
  postgres_world w;
  const auto store = w.open();
  new_job j = plain();
  j.max_attempts = 100;
  const auto id = w.wait(store->put(j)).id;
  for (int i = 0; i < 40; ++i) {
    const auto run = w.wait(store->claim({})).at(0);
    w.wait(store->fail(run.lease, "failure " + std::to_string(i) + " \xff", 0s));
  }
  const auto history = w.wait(store->look(id))->history;
  REQUIRE(history.size() == most_events);
  CHECK(history.front().text == "failure 8 \xff");
  CHECK(history.back().text == "failure 39 \xff");
  CHECK(history.back().attempt == 40);
}

TEST_CASE("who connects to a server that says nothing sleeps, and looks ten times a second whether to give up",
          "[jobs][postgres]") {
  net::io_context io;
  const net::ip::tcp::acceptor silent{io, {net::ip::address_v4::loopback(), 0}};
  const jobs::detail::postgres_place place{"host=127.0.0.1 user=tester dbname=postgres sslmode=disable port=" +
                                           std::to_string(silent.local_endpoint().port())};
  const auto looks = [&place](duration limit, bool gives_up) {
    int n = 0;
    try {
      const jobs::detail::postgres_link never{place,
                                              {.connect = limit,
                                               .answer = 1h,
                                               .statement = 1h,
                                               .lock = 1h,
                                               .step_lock = 1h,
                                               .listens = false,
                                               .gives_up = [&n, gives_up] {
                                                 ++n;
                                                 return gives_up;
                                               }}};
    } catch (const jobs::detail::postgres_error& e) {
      CHECK(has(e.what(), "the server does not answer"));
    }
    return n;
  };
  CHECK(looks(1h, true) == 1);
  const int n = looks(350ms, false);
  CHECK(n >= 1);
  CHECK(n <= 5);
}

TEST_CASE("a job for a transaction whose session has ended is refused with the reason of that", "[jobs][postgres]") {
  postgres_world w;
  postgres_store store{w.io(), w.url()};
  w.wait(store.count());
  postgres_session shop{w.url()};
  shop.run("BEGIN");
  w.session().run("SELECT pg_terminate_backend(" + shop.run("SELECT pg_backend_pid()") + ", 10000)");
  for (int i = 0; i < 2; ++i) {
    std::string said;
    try {
      (void)store.put_in(shop.get(), plain("1"));
    } catch (const std::system_error& e) {
      said = e.what();
    }
    CAPTURE(said);
    CHECK(has(said, i == 0 ? "terminating connection" : "no connection to the server"));
    CHECK(has(said, "look whether the server runs, and whether the URL names it"));
  }
  CHECK(w.session().run("SELECT count(*) FROM canigo_job") == "0");
}
