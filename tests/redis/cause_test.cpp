// What is said where Redis does not serve a limit: why, and at once where waiting is of no use.
#include "canigo/error.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/error.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "redis/member.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"
#include "support/said_by.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

struct end_and_text {
  std::error_code code;
  std::string text;
};

end_and_text end_with_text(net::io_context& io, net::awaitable<redis::permit> work) {
  std::optional<end_and_text> end;
  net::co_spawn(io, std::move(work), [&](std::exception_ptr failure, const redis::permit&) {
    try {
      if (failure) std::rethrow_exception(failure);
      end.emplace();
    } catch (const std::system_error& e) {
      end = {e.code(), said_by(e)};
    }
  });
  run_until(io, [&] { return end.has_value(); });
  return *end;
}

bool mentions(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// As somebody else: unix://user:password@/path.
std::string url_as(const redis_server& server, const std::string& login) {
  return "unix://" + login + "@" + server.path();
}

/// What is wrong for good is said at once; stats say it too, and the other ways to ask.
void fails_at_once(const std::string& url, std::error_code code, std::string_view why) {
  drained io;
  member m{io, url, {.permits = 1, .lease = 1s, .give_up = 1h, .quarantine = false}};
  const auto first = end_with_text(io, m.slots.acquire());
  CAPTURE(first.text);
  CHECK(first.code == code);
  CHECK(mentions(first.text, why));
  CHECK(mentions(first.text, "unix:"));
  CHECK_FALSE(mentions(first.text, "secret"));
  const auto stats = m.slots.stats();
  CHECK_FALSE(stats.available);
  CHECK(mentions(stats.last_error, why));
  CHECK(stats.last_error_code == code);
  CHECK(end_with_text(io, m.slots.acquire()).code == code);
  waiting w{m.slots, {}};
  run_until(io, [&] { return w.ended(); });
  CHECK(*w.ec == code);
}

/// What may be over soon is waited for, and then said.
void fails_in_the_end(const std::string& url, std::string_view why) {
  drained io;
  member m{io, url, {.permits = 1, .lease = 1s, .give_up = 300ms, .quarantine = false}};
  const auto f = end_with_text(io, m.slots.acquire());
  CAPTURE(f.text);
  CHECK(f.code == errc::store_unavailable);
  CHECK(mentions(f.text, why));
  CHECK(mentions(m.slots.stats().last_error, why));
}

void order(redis_server& server, const redis::command& c) {
  net::io_context io;
  redis::client client{io, server.url()};
  run(io, client.run(c));
}

std::uint64_t figure_in(const std::string& info, const std::string& name) {
  const auto at = info.find(name + ":");
  REQUIRE(at != std::string::npos);
  return std::strtoull(info.c_str() + at + name.size() + 1, nullptr, 10);
}

}  // namespace

TEST_CASE("what is wrong for good with Redis is said at once") {
  using redis::error;
  redis_server server;
  SECTION("a wrong password") {
    order(server, redis::command{"CONFIG", "SET", "requirepass", "secret1"});
    fails_at_once(url_as(server, ":secret2"), error::wrong_password, "WRONGPASS");
  }
  SECTION("no password") {
    order(server, redis::command{"CONFIG", "SET", "requirepass", "secret1"});
    fails_at_once(server.url(), error::auth_required, "NOAUTH");
  }
  SECTION("a key of another type") {
    order(server, redis::command{"SET", "{canigo:default:crm}:s:state", 1});
    fails_at_once(server.url(), error::wrong_type, "WRONGTYPE");
  }
  SECTION("a user without the keys") {
    order(server, redis::command{"ACL", "SETUSER", "bob", "on", ">secret", "+@all", "~other", "allchannels"});
    fails_at_once(url_as(server, "bob:secret"), error::no_permission, "NOPERM");
  }
  SECTION("a user without a command of the script") {
    order(server, redis::command{"ACL", "SETUSER", "bob", "on", ">secret", "+@all", "-zadd", "~*", "allchannels"});
    fails_at_once(url_as(server, "bob:secret"), error::no_permission, "script");
  }
}

TEST_CASE("a Redis without the command for scripts is said to be one at once") {
  redis_server server{{"--rename-command", "EVALSHA", ""}};
  fails_at_once(server.url(), redis::error::command_failed, "unknown command 'EVALSHA'");
}

TEST_CASE("what may be over soon is waited for, and then it is said what it was") {
  SECTION("nothing listens") {
    redis_server server;
    server.kill();
    fails_in_the_end(server.url(), "No such file");
  }
  SECTION("a replica") {
    redis_server server;
    order(server, redis::command{"REPLICAOF", "127.0.0.1", 1});
    fails_in_the_end(server.url(), "READONLY");
  }
  SECTION("no memory") {
    redis_server server;
    {
      drained io;
      member first{io, server.url(), {.permits = 1, .quarantine = false}};  // or there is something to be removed first
      run(io, first.slots.acquire()).release();
      run(io, first.client.run("CONFIG", "SET", "maxmemory", 1));
    }
    fails_in_the_end(server.url(), "OOM");
  }
}

TEST_CASE("what was wrong for good and is mended is forgotten") {
  redis_server server;
  drained io;
  member m{io, server.url(), {.permits = 1, .quarantine = false}};
  const std::string key = "{canigo:default:crm}:s:state";
  run(io, m.client.run("SET", key, 1));
  CHECK(end_with_text(io, m.slots.acquire()).code == redis::error::wrong_type);
  run(io, m.client.run("DEL", key));
  const auto give_up = steady::now() + 60s;
  while (end_with_text(io, m.slots.acquire()).code && steady::now() < give_up) run_for(io, 10ms);
  CHECK(m.slots.stats().available);
  CHECK(m.slots.stats().last_error.empty());
  CHECK(m.client.stats().last_error.empty());
}

TEST_CASE("who may not listen says so, does not ask again and again, and is served all the same") {
  redis_server server;
  order(server, redis::command{"ACL", "SETUSER", "bob", "on", ">secret", "+@all", "~*", "resetchannels"});
  order(server, redis::command{"ACL", "SETUSER", "bob", "&other"});
  drained io;
  const redis::semaphore_options o{.permits = 1, .lease = 300ms, .quarantine = false};
  member holder{io, server.url(), o};
  member m{io, url_as(server, "bob:secret"), o};
  auto p = run(io, holder.slots.acquire());
  const auto before = figure_in(run(io, holder.client.run("INFO", "stats")).text(), "total_connections_received");
  waiting w{m.slots, {}};
  run_until(io, [&] { return !m.slots.stats().last_error.empty(); });
  CHECK(m.slots.stats().available);
  CHECK(m.slots.stats().last_error_code == redis::error::no_permission);
  CHECK(mentions(m.slots.stats().last_error, "NOPERM"));
  run_for(io, 1s);
  const auto after = figure_in(run(io, holder.client.run("INFO", "stats")).text(), "total_connections_received");
  CHECK(after - before <= 3);
  p.release();
  run_until(io, [&] { return w.ended(); });
  CHECK_FALSE(*w.ec);
}

TEST_CASE("who hears no messages, as their connection is lost, says so and is served all the same") {
  redis_server server;
  drained io;
  redis::client client{io, server.url(), {.reconnect = canigo::backoff::constant(1s)}};
  redis::semaphore slots{client, "crm", {.permits = 1, .lease = 300ms, .quarantine = false}};
  member holder{io, server.url(), {.permits = 1, .lease = 300ms, .quarantine = false}};
  auto p = run(io, holder.slots.acquire());
  waiting w{slots, {}};
  const auto listens = [&] {
    return figure_in(run(io, holder.client.run("INFO", "stats")).text(), "pubsub_channels") != 0;
  };
  run_until(io, listens);
  order(server, redis::command{"CLIENT", "KILL", "TYPE", "pubsub"});
  run_until(io, [&] { return !slots.stats().last_error.empty(); });
  CHECK(slots.stats().available);
  CHECK(mentions(slots.stats().last_error, "messages can't be listened to: "));
  run_until(io, [&] { return slots.stats().last_error.empty(); });
  CHECK(listens());
  p.release();
  run_until(io, [&] { return w.ended(); });
  CHECK_FALSE(*w.ec);
}

TEST_CASE("who needs no messages any more does not miss them") {
  redis_server server;
  drained io;
  const redis::semaphore_options o{.permits = 1, .lease = 300ms, .quarantine = false};
  redis::client client{io, server.url(), {.reconnect = canigo::backoff::constant(1h)}};
  redis::semaphore slots{client, "crm", o};
  member holder{io, server.url(), o};
  auto p = run(io, holder.slots.acquire());
  waiting w{slots, {}};
  run_until(io, [&] { return figure_in(run(io, holder.client.run("INFO", "stats")).text(), "pubsub_channels") != 0; });
  order(server, redis::command{"CLIENT", "KILL", "TYPE", "pubsub"});
  run_until(io, [&] { return !slots.stats().last_error.empty(); });
  w.cancel.emit(net::cancellation_type::terminal);
  run_until(io, [&] { return w.ended(); });
  run_until(io, [&] { return slots.stats().last_error.empty(); });
  p.release();
}

TEST_CASE("members none of whom may publish are served all the same") {
  redis_server server;
  const bool has_channels = GENERATE(false, true);
  order(server, redis::command{"ACL", "SETUSER", "bob", "on", ">secret", "+@all", "~*", "resetchannels"});
  if (has_channels) order(server, redis::command{"ACL", "SETUSER", "bob", "allchannels", "-publish"});
  drained io;
  const redis::semaphore_options o{.permits = 1, .lease = 300ms, .quarantine = false};
  member a{io, url_as(server, "bob:secret"), o};
  member b{io, url_as(server, "bob:secret"), o};
  for (int i = 0; i < 3; ++i) {
    auto p = run(io, a.slots.acquire());
    waiting w{b.slots, {}};
    run_until(io, [&] { return a.slots.stats().waiting_of_all == 1; });
    p.release();
    run_until(io, [&] { return w.ended(); });
    CHECK_FALSE(*w.ec);
    w.p.release();
  }
}

TEST_CASE("a member that may not ask for the run id stops nobody") {
  redis_server server;
  order(server, redis::command{"ACL", "SETUSER", "bob", "on", ">secret", "+@all", "-info", "~*", "allchannels"});
  drained io;
  const redis::semaphore_options o{.permits = 1, .lease = 200ms};
  member blind{io, url_as(server, "bob:secret"), o};
  member m{io, server.url(), o};
  // One quarantine each, at most: the first of all, and that of the first who knows the run id.
  run(io, blind.slots.acquire()).release();
  run(io, m.slots.acquire()).release();
  for (int i = 0; i < 20; ++i) {
    run(io, blind.slots.acquire()).release();
    run(io, m.slots.acquire()).release();
    CHECK(blind.slots.stats().quarantine == 0s);
    CHECK(m.slots.stats().quarantine == 0s);
  }
}
