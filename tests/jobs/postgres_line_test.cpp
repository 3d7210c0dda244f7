// What the thread of a store in PostgreSQL does where its server or the line to it fails.

#include "canigo/jobs/error.hpp"
#include "canigo/jobs/postgres_store.hpp"

#include "../../lib/jobs/postgres_place.hpp"
#include "postgres_proxy.hpp"
#include "postgres_server.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/ip/address_v4.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

using namespace canigo;
using namespace canigo::jobs;
using namespace std::chrono_literals;

namespace {

new_job nameless() { return {.kind = "kind"}; }

/// A server that lets everybody in, and hangs up.
class rude_server {
 public:
  explicit rude_server(net::io_context& io) : acceptor_{io, {net::ip::address_v4::loopback(), 0}} { accept(); }

  std::string url() const {
    return "host=127.0.0.1 user=x dbname=x sslmode=disable gssencmode=disable port=" +
           std::to_string(acceptor_.local_endpoint().port());
  }
  int dials() const noexcept { return dials_; }

 private:
  void accept() {
    acceptor_.async_accept([this](std::error_code ec, net::ip::tcp::socket s) {
      if (ec) return;
      ++dials_;
      char request[1000];
      s.read_some(net::buffer(request), ec);
      // AuthenticationOk, and ReadyForQuery.
      const char answer[] = "R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
      net::write(s, net::buffer(answer, sizeof answer - 1), ec);
      accept();
    });
  }

  net::ip::tcp::acceptor acceptor_;
  int dials_ = 0;
};

/// The error of a put, and of a call that changes nothing.
std::pair<std::error_code, std::error_code> errors_of_two(net::io_context& io, postgres_store& store) {
  std::pair<std::error_code, std::error_code> found;
  int left = 2;
  const auto note = [&left](auto call, std::error_code& code) -> net::awaitable<void> {
    try {
      co_await std::move(call);
    } catch (const std::system_error& e) {
      code = e.code();
    }
    --left;
  };
  net::co_spawn(io, note(store.put(nameless()), found.first), net::detached);
  net::co_spawn(io, note(store.next_due("default"), found.second), net::detached);
  io.restart();
  while (left > 0) io.run_one();
  return found;
}

}  // namespace

TEST_CASE("a server that hangs up after each login is dialled less and less often, and given up in time",
          "[jobs][postgres][realtime]") {
  net::io_context io;
  rude_server server{io};
  postgres_store store{io, server.url(), {.reconnect_limit = 2s}};
  const auto begun = std::chrono::steady_clock::now();
  const auto [put, look] = errors_of_two(io, store);
  CHECK(std::chrono::steady_clock::now() - begun >= 2s);
  CHECK(put == jobs::error::cannot_open);  // nothing of it was ever sent
  CHECK(look == jobs::error::cannot_open);
  CHECK(server.dials() >= 3);
  CHECK(server.dials() <= 30);
}

TEST_CASE("a store that is destroyed while its server hangs up after each login ends soon",
          "[jobs][postgres][realtime]") {
  net::io_context io;
  rude_server server{io};
  {
    postgres_store store{io, server.url(), {.reconnect_limit = 24h}};
    net::co_spawn(io, [&]() -> net::awaitable<void> { co_await store.next_due("default"); }, net::detached);
    while (server.dials() < 2) io.run_one();
    io.stop();
  }
}

TEST_CASE("a step that was in the way of another transaction is done again, so many times", "[jobs][postgres]") {
  postgres_world w;
  const auto store = w.open();
  w.wait(store->put(nameless()));
  auto& s = w.session();
  s.run("CREATE SEQUENCE tries");
  const auto refuse = [&](const std::string& state, int times) {
    s.run("ALTER SEQUENCE tries RESTART");
    s.run("CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF nextval('tries') <= " +
          std::to_string(times) + " THEN RAISE EXCEPTION 'in the way' USING ERRCODE = '" + state +
          "'; END IF; RETURN NEW; END$$");
  };
  refuse("40001", 0);
  s.run("CREATE TRIGGER refuses BEFORE INSERT ON canigo_job FOR EACH ROW EXECUTE FUNCTION refuse()");
  const auto tries = [&] { return s.run("SELECT last_value FROM tries"); };
  for (const char* state : {"40001", "40P01", "23505"}) {
    CAPTURE(state);
    refuse(state, 19);
    const auto begun = std::chrono::steady_clock::now();
    CHECK(w.wait(store->put(nameless())).is_new);
    CHECK(tries() == "20");
    CHECK(std::chrono::steady_clock::now() - begun >= 190ms);  // 1 ms, 2 ms, and so on
    refuse(state, 20);
    CHECK(w.error_of(store->put(nameless())).first == (state[0] == '4' ? jobs::error::locked : jobs::error::failed));
    CHECK(tries() == "20");
  }
  for (const char* state : {"40002", "22012"}) {
    refuse(state, 1);
    CHECK(w.error_of(store->put(nameless())).first == (state[0] == '4' ? jobs::error::locked : jobs::error::failed));
    CHECK(tries() == "1");
  }
}

TEST_CASE("all puts that wait for one lock end in time with its error", "[jobs][postgres]") {
  postgres_world w;
  w.wait(w.open()->count());
  w.session().run("BEGIN; INSERT INTO canigo_job(kind, unique_key) VALUES('k', 'K')");
  postgres_store store{w.io(), w.url(), {.lock_limit = 100ms}};
  int failed = 0;
  for (int i = 0; i < 4; ++i) {
    const auto put = [&]() -> net::awaitable<void> {
      new_job j = nameless();
      j.unique_key = "K";
      try {
        co_await store.put(std::move(j));
      } catch (const std::system_error& e) {
        failed += e.code() == jobs::error::locked;
      }
    };
    net::co_spawn(w.io(), put, net::detached);
  }
  w.io().restart();
  w.io().run();
  CHECK(failed == 4);
}

TEST_CASE("a store that nobody asks connects again, and has news then", "[jobs][postgres]") {
  postgres_world w;
  postgres_store store{w.io(), w.url() + " application_name=idle", {.poll = 1h}};
  postgres_store other{w.io(), w.url()};
  w.wait(store.next_due("default"));
  w.wait(other.next_due("default"));
  for (int i = 0; i < 3; ++i) {
    auto seen = w.wait(store.changed(0));
    w.session().run("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'idle'");
    seen = w.wait(store.changed(seen));
    w.wait(other.put(nameless()));
    CHECK(w.wait(store.changed(seen)) > seen);
  }
}

TEST_CASE("a step waits for a server that was there a moment ago, however long it has worked on the step",
          "[jobs][postgres][realtime]") {
  postgres_world w;
  w.wait(w.open()->count());
  postgres_store store{w.io(), w.url() + " application_name=long", {.lock_limit = 1h, .reconnect_limit = 2s}};
  w.wait(store.next_due("default"));
  w.session().run(
      "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3); RETURN NEW; END'");
  w.session().run("CREATE TRIGGER slow BEFORE INSERT ON canigo_job FOR EACH ROW EXECUTE FUNCTION slow()");
  std::optional<put_answer> answer;
  const auto put = [&]() -> net::awaitable<void> {
    const new_job j = nameless();
    answer = co_await store.put(j);
  };
  net::co_spawn(w.io(), put, net::detached);
  w.io().restart();
  w.io().poll();
  std::this_thread::sleep_for(2500ms);
  w.session().run("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'long'");
  w.session().run("DROP TRIGGER slow ON canigo_job");
  w.io().run();
  CHECK(answer);
  CHECK(w.wait(store.list({})).size() == 1);
}

TEST_CASE("a URL is completed by what every connection needs", "[jobs][postgres]") {
  using settings = std::map<std::string, std::string>;
  const auto of = [](const std::string& url) {
    const jobs::detail::postgres_place place{url};
    return settings{place.settings().begin(), place.settings().end()};
  };
  CHECK(of("host=h user=u client_encoding=LATIN1") == settings{{"host", "h"},
                                                               {"user", "u"},
                                                               {"client_encoding", "UTF8"},
                                                               {"fallback_application_name", "canigo"},
                                                               {"keepalives_idle", "30"},
                                                               {"keepalives_interval", "10"},
                                                               {"keepalives_count", "3"}});
  const auto given = of("keepalives_idle=1 keepalives_interval=2 keepalives_count=4 fallback_application_name=mine");
  CHECK(given.at("keepalives_idle") == "1");
  CHECK(given.at("keepalives_interval") == "2");
  CHECK(given.at("keepalives_count") == "4");
  CHECK(given.at("fallback_application_name") == "mine");
  const auto name_of = [](const std::string& url) { return jobs::detail::postgres_place{url}.name(); };
  CHECK(name_of("host=h hostaddr=10.0.0.1 user=u dbname=d port=7") == "postgresql://u@h:7/d");
  CHECK(name_of("hostaddr=10.0.0.1 user=u port=7") == "postgresql://u@10.0.0.1:7/u");
}

TEST_CASE("a connection is set up for its steps", "[jobs][postgres]") {
  postgres_world w;
  postgres_store store{w.io(),
                       w.url("-c log_statement=all -c synchronous_commit=off"),
                       {.lock_limit = 77'701ms, .answer_limit = 77'702ms}};
  w.wait(store.count());
  w.wait(store.put(nameless()));
  std::ifstream log{postgres_world::server().folder() + "/log"};
  const std::string text{std::istreambuf_iterator<char>{log}, {}};
  for (const char* part : {"SET LOCAL lock_timeout = 77701\n", "LISTEN canigo_jobs", "$1 = '20', $2 = NULL, $3 = '1'",
                           "$1 = '20', $2 = '77702', $3 = '0'"}) {
    CAPTURE(part);
    CHECK(text.find(part) != text.npos);
  }
  // It would stay with a connection that a proxy lends.
  for (const char* part : {"SET lock_timeout", "SET statement_timeout", "SET jit"}) CHECK(text.find(part) == text.npos);
  w.session().run("CREATE TABLE seen AS SELECT ''::text AS setting");
  w.session().run(
      "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE seen SET setting = "
      "current_setting(''synchronous_commit'') || current_setting(''jit''); RETURN NEW; END'");
  w.session().run("CREATE TRIGGER sees BEFORE INSERT OR UPDATE ON canigo_job FOR EACH ROW EXECUTE FUNCTION see()");
  w.wait(store.put(nameless()));
  CHECK(w.session().run("SELECT setting FROM seen") == "onoff");
  CHECK(w.wait(store.claim({})).size() == 1);
  CHECK(w.session().run("SELECT setting FROM seen") == "offoff");  // it may be lost
}

TEST_CASE("jobs that are dead or cancelled are listed by their own index", "[jobs][postgres]") {
  postgres_world w;
  postgres_store store{w.io(), w.url("-c log_statement=all")};
  const auto is_by_index = [&](std::optional<job_state> state) {
    const std::string log = postgres_world::server().folder() + "/log";
    const auto before = std::filesystem::file_size(log);
    w.wait(store.list({.state = state}));
    std::ifstream in{log};
    in.seekg(static_cast<std::streamoff>(before));
    const std::string text{std::istreambuf_iterator<char>{in}, {}};
    // The statements are logged as well when the connection prepares them, but not as executed.
    const auto at = text.find("execute canigo");
    REQUIRE(at != text.npos);
    return text.find("state > 2 AND", at) != text.npos;
  };
  w.wait(store.count());
  CHECK(is_by_index(job_state::dead));
  CHECK(is_by_index(job_state::cancelled));
  CHECK_FALSE(is_by_index(job_state::done));
  CHECK_FALSE(is_by_index(std::nullopt));
}

TEST_CASE("a step whose answer is lost is not done twice", "[jobs][postgres]") {
  postgres_world w;
  postgres_proxy proxy{postgres_world::server().folder()};
  postgres_store store{w.io(), w.url() + " host=" + proxy.folder(), {.reconnect_limit = 1h, .poll = 1h}};
  auto& s = w.session();
  w.wait(store.put(nameless()));

  proxy.cut();
  CHECK(w.error_of(store.put(nameless())).first == jobs::error::unknown_outcome);
  CHECK(s.run("SELECT count(*) FROM canigo_job") == "2");

  proxy.cut();
  const auto runs = w.wait(store.claim({}));
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].attempt == 1);
  CHECK(runs[0].crashes == 0);
  CHECK(s.run("SELECT count(*) FROM canigo_job WHERE state = 1") == "1");

  proxy.cut();
  CHECK(w.wait(store.extend(runs[0].lease, 1h, "half")).verdict == verdict::accepted);
  proxy.cut();
  CHECK(w.wait(store.next_due("default")) == 0s);
  proxy.cut();
  CHECK(w.error_of(store.complete(runs[0].lease, "done")).first == jobs::error::unknown_outcome);
  CHECK(w.wait(store.look(runs[0].lease.id))->result == "done");

  // Of those that were in one transaction, what may be done again is.
  proxy.cut();
  const auto [put, look] = errors_of_two(w.io(), store);
  CHECK(put == jobs::error::unknown_outcome);
  CHECK_FALSE(look);
  CHECK(s.run("SELECT count(*) FROM canigo_job") == "3");
}

TEST_CASE("a step that was refused is known to be undone, also where the end of its transaction is lost",
          "[jobs][postgres]") {
  postgres_world w;
  postgres_proxy proxy{postgres_world::server().folder()};
  postgres_store store{w.io(), w.url() + " host=" + proxy.folder(), {.reconnect_limit = 1h, .poll = 1h}};
  auto& s = w.session();
  w.wait(store.put(nameless()));
  s.run("CREATE SEQUENCE tries");
  s.run(
      "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF nextval('tries') <= 2 THEN "
      "RAISE EXCEPTION 'no' USING ERRCODE = '22012'; END IF; RETURN NEW; END$$");
  s.run("CREATE TRIGGER refuses BEFORE INSERT ON canigo_job FOR EACH ROW EXECUTE FUNCTION refuse()");

  // It is done again on another connection, and its answer is that of the second time.
  proxy.cut_at("ROLLBACK");
  CHECK(w.error_of(store.put(nameless())).first == jobs::error::failed);
  CHECK(s.run("SELECT last_value FROM tries") == "2");
  s.run("ALTER SEQUENCE tries RESTART WITH 2");
  proxy.cut_at("ROLLBACK");
  CHECK(w.wait(store.put(nameless())).is_new);
  CHECK(s.run("SELECT last_value FROM tries") == "3");
  CHECK(s.run("SELECT count(*) FROM canigo_job") == "2");
}
