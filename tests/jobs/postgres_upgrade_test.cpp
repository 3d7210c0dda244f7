#include "canigo/jobs/error.hpp"
#include "canigo/jobs/postgres_store.hpp"

#include "postgres_server.hpp"
#include "support/catch.hpp"
#include "upgrade.hpp"
#include "version_1.hpp"

#include <asio/co_spawn.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// Databases with the first version of the tables.

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// A world whose tables the first version has made.
class old_database : public postgres_world {
 public:
  old_database() {
    session().run(version_1_postgres);
    advance(after_version_1);
  }

  /// All that the first version knew, as text.
  std::string rows() {
    return session().run(
        "SELECT (SELECT string_agg(j::text, ' ' ORDER BY id) FROM (SELECT id, queue, kind, priority, state, "
        "run_at, lease_until, token, holder, attempt, max_attempts, crashes, snoozes, deadline, cancel_at, created_at, "
        "finished_at, unique_key, unique_home, unique_scope, unique_until, history, result, payload FROM canigo_job) "
        "j) || (SELECT string_agg(q::text, ' ' ORDER BY name) FROM canigo_queue q) "
        "|| (SELECT last_value || ' ' || is_called FROM canigo_job_id_seq)");
  }
};

}  // namespace

TEST_CASE("tables of the first version keep all that is in them, and their jobs go on", "[jobs][postgres]") {
  old_database w;
  const auto before = w.rows();
  const auto store = w.open();
  check_old_jobs(w, *store);
  CHECK(w.rows() == before);
  check_old_jobs_go_on(w, *store);
}

TEST_CASE("stores that come to tables of the first version at once all work", "[jobs][postgres]") {
  old_database w;
  const auto before = w.rows();
  std::vector<std::shared_ptr<jobs::store>> stores;
  for (int i = 0; i < 5; ++i) stores.push_back(w.open());
  for (const auto& s : stores) check_old_jobs(w, *s);
  CHECK(w.rows() == before);
  check_old_jobs_go_on(w, *stores.back());
}

TEST_CASE("a process of the first version that is connected goes on", "[jobs][postgres]") {
  old_database w;
  postgres_session old{w.url()};
  old.run(
      "PREPARE claim(bigint) AS UPDATE canigo_job SET state = 1, token = token + 1, attempt = attempt + 1, "
      "lease_until = now() + interval '1 h', holder = 5 WHERE id = $1 AND state = 0 RETURNING id, token");
  old.run("PREPARE ended(bigint) AS UPDATE canigo_job SET state = 2, finished_at = now() WHERE id = $1 AND state = 1");
  old.run("PREPARE put AS INSERT INTO canigo_job(kind, payload) VALUES('old', 'text') RETURNING id");
  const auto put_before = old.run("EXECUTE put");
  old.run("EXECUTE claim(1)");

  const auto store = w.open();
  const jobs::new_job first{.kind = "first", .batch = "b"};
  const jobs::new_job last{.kind = "last", .after_batch = "b"};
  const auto first_id = w.wait(store->put(first)).id;
  const auto last_id = w.wait(store->put(last)).id;
  CHECK(w.wait(store->look(std::stoll(put_before)))->payload == "text");
  CHECK(w.wait(store->look(std::stoll(old.run("EXECUTE put"))))->kind == "old");
  old.run("EXECUTE ended(1)");
  CHECK(w.wait(store->look(1))->state == jobs::job_state::done);
  CHECK(old.run("EXECUTE claim(" + std::to_string(first_id) + ")") == std::to_string(first_id));
  CHECK(w.wait(store->look(last_id))->run_at == jobs::instant::max());
  old.run("EXECUTE ended(" + std::to_string(first_id) + ")");
  CHECK(w.wait(store->look(last_id))->run_at != jobs::instant::max());
}

TEST_CASE("a change of the tables may take longer than an answer", "[jobs][postgres][realtime]") {
  old_database w;
  const auto before = w.rows();
  auto& reader = w.session();
  reader.run("BEGIN; SELECT 1 FROM canigo_job");  // ALTER TABLE waits for its end, and the server is silent
  jobs::postgres_store_options o;
  o.lock_limit = 1h;
  o.answer_limit = 100ms;
  o.reconnect_limit = 0s;
  jobs::postgres_store store{w.io(), w.url(), o};
  std::optional<std::exception_ptr> ended;
  net::co_spawn(
      w.io(), [&]() -> net::awaitable<void> { co_await store.look(1); }, [&](std::exception_ptr e) { ended = e; });
  w.io().restart();
  w.io().run_for(500ms);
  CHECK_FALSE(ended);
  reader.run("COMMIT");
  while (!ended) w.io().run_one();
  CHECK_FALSE(*ended);
  CHECK(w.rows() == before);
}

TEST_CASE("a store is destroyed while it waits to change tables", "[jobs][postgres][realtime]") {
  old_database w;
  const auto before = w.rows();
  auto& reader = w.session();
  reader.run("BEGIN; SELECT 1 FROM canigo_job");
  {
    jobs::postgres_store_options o;
    o.lock_limit = 1h;
    jobs::postgres_store store{w.io(), w.url(), o};
    std::this_thread::sleep_for(300ms);
  }
  reader.run("COMMIT");
  CHECK(w.rows() == before);
  check_old_jobs(w, *w.open());
}
