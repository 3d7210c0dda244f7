// What a client makes of servers that do odd things.
#include "canigo/detail/context/context_service.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/semaphore.hpp"
#include "canigo/time_source.hpp"
#include "canigo/timeout.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "redis/asked.hpp"
#include "redis/member.hpp"
#include "redis/proxy.hpp"
#include "redis/scripted.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/post.hpp>
#include <asio/recycling_allocator.hpp>
#include <asio/require.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using http_test::error_of;
using http_test::run_to_end;
using namespace redis_test;
using namespace std::chrono_literals;

namespace {

std::string address_of(const scripted_server& s) { return "127.0.0.1:" + std::to_string(s.port()); }

std::string bulk(const std::string& text) { return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"; }

}  // namespace

TEST_CASE("a server may tell nothing of itself, or what is not asked for") {
  for (const std::string& info :
       {std::string{}, std::string{"a:b"}, std::string{"a:b\r\nrun_identity:x\r\n"}, std::string{"run_id"}}) {
    scripted_server server{[&](peer& p) -> net::awaitable<void> {
      co_await command_with(p, "server");
      co_await p.send(greeting_with(info));
      co_await command_with(p, "go");
      co_await p.send("+gone\r\n");
      co_await p.linger();
    }};
    net::io_context io;
    redis::client client{io, url_of(server)};
    CHECK(run_to_end(io, client.run("GET", "go")).text() == "gone");
  }
}

TEST_CASE("a database that the user may not have is no other database") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    co_await command_with(p, "server");
    co_await p.send("-NOPERM this user has no permissions to run the 'select' command\r\n" + greeting_with(""));
    co_await p.linger();
  }};
  net::io_context io;
  redis::client client{io, url_of(server) + "/3"};
  CHECK(what_of(io, client.run("PING")).find("select") != std::string::npos);
  CHECK(error_of(io, client.run("PING")) == redis::error::no_permission);
}

TEST_CASE("a server that can't serve now is left for another") {
  for (const char* text :
       {"LOADING Redis is loading", "MASTERDOWN Link with MASTER is down", "CLUSTERDOWN it is down"}) {
    scripted_server server{[&](peer& p) -> net::awaitable<void> {
      co_await greet(p);
      co_await command_with(p, "go");
      const std::string reply = p.number > 1 ? "+gone" : std::string{"-"} + text;
      co_await p.send(reply + "\r\n");
      co_await p.linger();
    }};
    net::io_context io;
    redis::client client{io, url_of(server)};
    CHECK(error_of(io, client.run("GET", "go")) == redis::error_of(text));
    CHECK(run_to_end(io, client.run("GET", "go")).text() == "gone");
    CHECK(server.connections() == 2);
  }
}

TEST_CASE("a server that takes no client, and says why, is quoted") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    co_await p.send("-DENIED Redis is running in protected mode\r\n");  // and reads nothing
  }};
  net::io_context io;
  const redis::client_options once_an_hour{.reconnect = canigo::backoff::constant(1h)};
  redis::client client{io, url_of(server), once_an_hour};
  std::string last_error;
  net::co_spawn(io, client.run("GET", "go"), [](std::exception_ptr, const redis::reply&) {});
  run_until(io, [&] { return !client.stats().last_error.empty(); });
  CHECK(client.stats().last_error.find("DENIED Redis is running in protected mode") != std::string::npos);
  client.stop();
  run_for(io, 1ms);
}

TEST_CASE("a server that may not write is kept where there is no other, with all that it was asked") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    co_await greet(p);
    co_await command_with(p, "go");
    co_await p.send("-NOREPLICAS Not enough good replicas to write.\r\n");
    co_await command_with(p, "more");
    co_await p.send("+second\r\n+third\r\n");
    co_await p.linger();
  }};
  net::io_context io;
  redis::client client{io, url_of(server)};
  asked first{client, redis::command{"SET", "a", 1}}, second{client, redis::command{"GET", "go"}};
  run_until(io, [&] { return first.ends == 1; });
  CHECK(first.ec == redis::error::no_replicas);
  CHECK(first.text == "NOREPLICAS Not enough good replicas to write.");
  asked third{client, redis::command{"GET", "more"}};
  run_until(io, [&] { return second.ends + third.ends == 2; });
  CHECK(second.text == "second");
  CHECK(third.text == "third");
  CHECK(server.connections() == 1);
  CHECK(client.stats().failures == 0);
}

TEST_CASE("a server that says twice that it is a replica is left once") {
  scripted_server server{says("-READONLY no\r\n-READONLY no\r\n", "+gone\r\n")};
  net::io_context io;
  redis::client client{io, url_of(server)};
  asked first{client, redis::command{"SET", "a"}}, second{client, redis::command{"SET", "go"}};
  io.run();
  CHECK(first.ec == redis::error::read_only);
  CHECK(second.ec == redis::error::read_only);
  CHECK(run_to_end(io, client.run("GET", "go")).text() == "gone");
  CHECK(server.connections() == 2);
}

TEST_CASE("what else a server was asked that says that it is a replica does not wait for its answer") {
  scripted_server server{says("-READONLY no\r\n", "+gone\r\n")};
  net::io_context io;
  redis::client client{io, url_of(server)};
  asked first{client, redis::command{"SET", "a"}}, second{client, redis::command{"SET", "go"}};
  io.run();
  CHECK(first.ec == redis::error::read_only);
  CHECK(second.ec == redis::error::connection_lost);
  CHECK(client.stats().failures == 1);
  CHECK(run_to_end(io, client.run("GET", "go")).text() == "gone");
}

TEST_CASE("a server that says that it is a replica, and more than it was asked, is left once") {
  scripted_server server{says("-READONLY no\r\n+more\r\n", "+gone\r\n")};
  net::io_context io;
  redis::client client{io, url_of(server)};
  CHECK(error_of(io, client.run("SET", "go")) == redis::error::read_only);
  CHECK(run_to_end(io, client.run("GET", "go")).text() == "gone");
  CHECK(client.stats().failures == 1);
  CHECK(client.stats().connects == 2);
}

TEST_CASE("a connection that breaks while a command is written is as one that breaks before its reply") {
  redis_server server;
  net::io_context io;
  proxy between{io, server.folder() / "proxy.sock", server.path()};
  redis::client client{io, between.url()};
  asked first{client, redis::command{"BLPOP", "nothing", 0}};
  while (client.stats().in_flight == 0) io.run_one();
  io.poll();
  // Before the loop looks at the connection again, the command is on its way.
  net::post(io, [&] { between.close(); });
  asked second{client, redis::command{"PING"}};
  while (second.ends == 0) io.run_one();
  CHECK(first.ec == redis::error::connection_lost);
  CHECK(second.ec == redis::error::connection_lost);
  CHECK(client.stats().sent == 2);
  CHECK(client.stats().failures == 1);
}

TEST_CASE("a connection that was reset, or has said something, while it was idle is replaced") {
  const bool is_reset = GENERATE(true, false);
  std::atomic<bool> is_idle{false};
  std::atomic<bool> done{false};
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    co_await greet(p);
    co_await command_with(p, "go");
    co_await p.send(p.number == 1 ? "+first\r\n" : "+second\r\n");
    if (p.number > 1) co_await p.linger();
    while (!is_idle) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
    if (is_reset) {
      p.socket.set_option(net::socket_base::linger{true, 0});
      p.socket.close();
      done = true;
    } else {
      p.socket.set_option(net::ip::tcp::no_delay{true});
      co_await p.send("+nobody asked\r\n");
      done = true;
      co_await p.linger();
    }
  }};
  net::io_context io;
  redis::client client{io, url_of(server)};
  CHECK(run_to_end(io, client.run("GET", "go")).text() == "first");
  is_idle = true;
  while (!done) std::this_thread::yield();
  CHECK(run_to_end(io, client.run("GET", "go")).text() == "second");
  CHECK(client.stats().failures == 0);
  CHECK(client.stats().connects == 2);
}

TEST_CASE("sentinels that know no master, or one that is none any more [realtime]", "[realtime]") {
  net::io_context io;
  // A command that is given up before a sentinel was heard can't tell. So a slow machine has more time.
  const auto is_told = [&](const std::string& url) {
    for (canigo::duration timeout = 100ms; timeout < 5min; timeout *= 4) {
      redis::client client{io, url, {.timeout = timeout}};
      if (what_of(io, client.run("PING")).find("no master was found") != std::string::npos) return true;
    }
    return false;
  };
  const auto sentinel = [](std::string text) {
    return [text = std::move(text)](peer& p) -> net::awaitable<void> {
      co_await command_with(p, "main");
      co_await p.send(text);
      co_await p.linger();
    };
  };
  SECTION("none knows one") {
    scripted_server does_not{sentinel("*-1\r\n")};
    CHECK(is_told("redis+sentinel://127.0.0.1:1," + address_of(does_not) + "/main"));
  }
  SECTION("it is a replica, or says nothing of itself") {
    for (const char* role : {"*1\r\n$5\r\nslave\r\n", "*0\r\n"}) {
      scripted_server replica{[&](peer& p) -> net::awaitable<void> {
        co_await command_with(p, "ROLE");
        co_await p.send(greeting_with("") + role);
        co_await p.linger();
      }};
      scripted_server behind{sentinel("*2\r\n" + bulk("127.0.0.1") + bulk(std::to_string(replica.port())))};
      CHECK(is_told("redis+sentinel://" + address_of(behind) + "/main"));
    }
  }
}

TEST_CASE("a master that says nothing is left when the sentinels name another [realtime]", "[realtime]") {
  scripted_server silent{[](peer& p) -> net::awaitable<void> { co_await p.linger(); }};
  scripted_server speaks{[](peer& p) -> net::awaitable<void> {
    co_await command_with(p, "ROLE");
    co_await p.send(greeting_with("") + "*1\r\n" + bulk("master"));
    co_await command_with(p, "PING");
    co_await p.send("+PONG\r\n");
    co_await p.linger();
  }};
  std::atomic<int> asked{0};
  scripted_server sentinel{[&](peer& p) -> net::awaitable<void> {
    co_await command_with(p, "main");
    const auto& named = asked++ < 2 ? silent : speaks;
    co_await p.send("*2\r\n" + bulk("127.0.0.1") + bulk(std::to_string(named.port())));
    co_await p.linger();
  }};
  net::io_context io;
  const redis::client_options patient{.connect_timeout = 1h, .timeout = 1h};
  redis::client client{io, "redis+sentinel://" + address_of(sentinel) + "/main", patient};
  redis_test::asked ping{client, redis::command{"PING"}};
  run_until(io, [&] { return ping.ends > 0; });
  CHECK_FALSE(ping.ec);
  CHECK(asked == 3);
  CHECK(silent.connections() == 1);
}

TEST_CASE("a sentinel that names what is no master any more keeps nobody from asking the next [realtime]",
          "[realtime]") {
  const auto master_that = [](std::string role) {
    return [role = std::move(role)](peer& p) -> net::awaitable<void> {
      co_await command_with(p, "ROLE");
      co_await p.send(greeting_with("") + "*1\r\n" + bulk(role));
      co_await command_with(p, "PING");
      co_await p.send("+PONG\r\n");
    };
  };
  const auto sentinel_of = [](const std::string& port) {
    return [port](peer& p) -> net::awaitable<void> {
      co_await command_with(p, "main");
      co_await p.send("*2\r\n" + bulk("127.0.0.1") + bulk(port));
      co_await p.linger();
    };
  };
  scripted_server master{master_that("master")};
  scripted_server replica{master_that("slave")};
  scripted_server silent{[](peer& p) -> net::awaitable<void> { co_await p.linger(); }};
  scripted_server right{sentinel_of(std::to_string(master.port()))};
  scripted_server right_too{sentinel_of(std::to_string(master.port()))};
  net::io_context io;
  const auto pings = [&](redis::client& c) {
    asked a{c, redis::command{"PING"}.with_timeout(canigo::duration::max())};
    run_until(io, [&] { return a.ends == 1; });
    return !a.ec;
  };
  SECTION("it is gone, or a replica") {
    const std::string port = GENERATE_REF(std::string{"1"}, std::to_string(replica.port()));
    scripted_server behind{sentinel_of(port)};
    redis::client client{io, "redis+sentinel://" + address_of(behind) + "," + address_of(right) + "/main"};
    CHECK(pings(client));
    // The master hangs up, perhaps when it has been asked already. The sentinel that was right is asked first now.
    if (!pings(client)) CHECK(pings(client));
    CHECK(behind.connections() == 1);
    CHECK(right.connections() == 2);
  }
  SECTION("it may not write, because its replicas have left it") {
    scripted_server left{[&](peer& p) -> net::awaitable<void> {
      co_await command_with(p, "ROLE");
      co_await p.send(greeting_with("") + "*1\r\n" + bulk("master"));
      // The first only speaks of it.
      for (const char* said : {"-ERR unknown command 'x', with args beginning with: 'NOREPLICAS '\r\n",
                               "-NOREPLICAS Not enough good replicas to write.\r\n"}) {
        co_await command_with(p, "PING");
        co_await p.send(said);
      }
      co_await p.linger();
    }};
    scripted_server behind{sentinel_of(std::to_string(left.port()))};
    redis::client client{io, "redis+sentinel://" + address_of(behind) + "," + address_of(right) + "/main"};
    CHECK_FALSE(pings(client));
    CHECK(client.stats().failures == 0);
    CHECK_FALSE(pings(client));
    CHECK(pings(client));
    CHECK(left.connections() == 1);
  }
  SECTION("it says nothing") {
    scripted_server behind{sentinel_of(std::to_string(silent.port()))};
    scripted_server behind_too{sentinel_of(std::to_string(silent.port()))};
    scripted_server right_as_well{sentinel_of(std::to_string(master.port()))};
    const redis::client_options patient{.connect_timeout = 1h, .timeout = 1h};
    redis::client client{io,
                         "redis+sentinel://" + address_of(behind) + "," + address_of(behind_too) + "," +
                             address_of(right) + "," + address_of(right_too) + "," + address_of(right_as_well) +
                             "/main",
                         patient};
    CHECK(pings(client));
    // The master hangs up. The sentinel that named it is asked first now, not the one behind that which was wrong.
    if (!pings(client)) CHECK(pings(client));
    CHECK(silent.connections() == 1);
    CHECK(behind.connections() == 2);
    CHECK(behind_too.connections() == 1);
    CHECK(right.connections() >= 2);
  }
  SECTION("only one sentinel says so, of a master that takes its time") {
    std::atomic<bool> is_ready{false};
    scripted_server slow{[&](peer& p) -> net::awaitable<void> {
      co_await command_with(p, "ROLE");
      while (!is_ready) co_await canigo::sleep_for(10ms);
      co_await p.send(greeting_with("") + "*1\r\n" + bulk("master"));
      co_await command_with(p, "PING");
      co_await p.send("+PONG\r\n");
      co_await p.linger();
    }};
    scripted_server knows{sentinel_of(std::to_string(slow.port()))};
    scripted_server behind{sentinel_of(std::to_string(silent.port()))};
    const redis::client_options patient{.connect_timeout = 1h, .timeout = 1h};
    redis::client client{io, "redis+sentinel://" + address_of(knows) + "," + address_of(behind) + "/main", patient};
    redis_test::asked ping{client, redis::command{"PING"}};
    run_until(io, [&] { return behind.connections() == 2; });
    is_ready = true;
    run_until(io, [&] { return ping.ends > 0; });
    CHECK_FALSE(ping.ec);
    CHECK(slow.connections() == 1);
    CHECK(silent.connections() == 0);
  }
}

TEST_CASE("a client ends at once while it waits for a master that says nothing [realtime]", "[realtime]") {
  // Until the next question to the sentinels, and in the middle of one that nobody answers.
  const int answers = GENERATE(1, 0);
  const bool is_context_destroyed = GENERATE(false, true);
  scripted_server silent{[](peer& p) -> net::awaitable<void> { co_await p.linger(); }};
  std::atomic<int> asked{0};
  scripted_server sentinel{[&](peer& p) -> net::awaitable<void> {
    co_await command_with(p, "main");
    if (asked++ <= answers * 1000) {
      co_await p.send("*2\r\n" + bulk("127.0.0.1") + bulk(std::to_string(silent.port())));
    }
    co_await p.linger();
  }};
  auto io = std::make_unique<net::io_context>();
  const redis::client_options patient{.connect_timeout = 1h, .timeout = 1h};
  redis::client client{*io, "redis+sentinel://" + address_of(sentinel) + "/main", patient};
  redis_test::asked ping{client, redis::command{"PING"}};
  run_until(*io, [&] { return silent.connections() == 1 && asked >= 2 - answers; });
  if (is_context_destroyed) {
    io.reset();
    CHECK(ping.ends == 0);  // its handler has gone with the context
    return;
  }
  client.stop();
  io->restart();
  io->run();
  CHECK(ping.ec == errc::stopped);
}

TEST_CASE("what a sentinel said tells more than that another is not there, until one names a master") {
  net::io_context io;
  const auto sentinel = [](std::string text) {
    return [text = std::move(text)](peer& p) -> net::awaitable<void> {
      co_await command_with(p, "main");
      co_await p.send(text);
      co_await p.linger();
    };
  };
  scripted_server refuses{sentinel("-DENIED go away\r\n")};
  scripted_server names_one{sentinel("*2\r\n" + bulk("127.0.0.1") + bulk("1"))};
  const std::string nobody = "127.0.0.1:1";
  const auto said = [&](const std::string& sentinels) {
    redis::client client{io, "redis+sentinel://" + sentinels + "/main"};
    asked a{client, redis::command{"PING"}.with_timeout(canigo::duration::max())};
    run_until(io, [&] { return client.stats().failures > 0; });
    const std::string text = client.stats().last_error;
    client.stop();
    run_until(io, [&] { return a.ends == 1; });
    return text;
  };
  for (const std::string& both : {nobody + "," + address_of(refuses), address_of(refuses) + "," + nobody}) {
    const std::string text = said(both);
    CAPTURE(text);
    CHECK(text.find("sentinel " + address_of(refuses) + ": DENIED go away") != std::string::npos);
  }
  const std::string text = said(address_of(refuses) + "," + address_of(names_one));
  CAPTURE(text);
  CHECK(text.find("DENIED") == std::string::npos);
  CHECK(text.find("refused") != std::string::npos);
}

TEST_CASE("a server that knows no names for clients is used, one that tells nothing of itself on demand is not") {
  net::io_context io;
  const auto server = [](std::string greeting) {
    return [greeting = std::move(greeting)](peer& p) -> net::awaitable<void> {
      co_await command_with(p, "server");
      co_await p.send(greeting);
      co_await command_with(p, "go");
      co_await p.send("+gone\r\n");
      co_await p.linger();
    };
  };
  const std::string hello = hello_of("standalone");
  for (const auto& greeting :
       {"-ERR unknown command 'CLIENT'\r\n" + hello + "$0\r\n\r\n", "-NOPERM no\r\n" + hello + "-NOPERM no\r\n"}) {
    scripted_server lenient{server(greeting)};
    redis::client client{io, url_of(lenient)};
    CHECK(run_to_end(io, client.run("GET", "go")).text() == "gone");
  }
  scripted_server strict{server("+OK\r\n" + hello + "-ERR unknown command 'INFO'\r\n")};
  redis::client client{io, url_of(strict)};
  CHECK(what_of(io, client.run("GET", "go")).find("unknown command 'INFO'") != std::string::npos);
}

TEST_CASE("stopped while a sentinel thinks: nobody asks the next") {
  scripted_server silent{[](peer& p) -> net::awaitable<void> { co_await p.linger(); }};
  scripted_server next{[](peer& p) -> net::awaitable<void> { co_await p.linger(); }};
  net::io_context io;
  redis::client client{io, "redis+sentinel://" + address_of(silent) + "," + address_of(next) + "/main"};
  asked a{client, redis::command{"PING"}};
  while (silent.connections() == 0) io.poll();
  for (int i = 0; i < 20; ++i) io.poll();
  client.stop();
  io.restart();
  io.run();
  CHECK(a.ec == errc::stopped);
  CHECK(next.connections() == 0);
}

TEST_CASE("a client works on an executor that nobody knows, and without a time limit") {
  redis_server server;
  net::io_context io;
  const net::any_io_executor executor =
      net::require(io.get_executor(), net::execution::allocator(net::recycling_allocator<void>{}));
  redis::client client{executor, server.url(), {.timeout = canigo::duration::max()}};
  CHECK(run_to_end(io, client.run("PING")).text() == "PONG");
}

TEST_CASE("a command that nobody waits for any more goes with the client, or with the context") {
  const bool is_stopped = GENERATE(true, false);
  std::atomic<bool> is_asked{false};
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    co_await greet(p);
    co_await command_with(p, "go");
    is_asked = true;
    co_await p.linger();
  }};
  auto io = std::make_unique<net::io_context>();
  redis::client client{*io, url_of(server)};
  asked a{client, redis::command{"GET", "a"}}, b{client, redis::command{"GET", "go"}};
  while (!is_asked) io->poll();
  a.cancel.emit(net::cancellation_type::total);
  while (a.ends == 0) io->poll();
  if (is_stopped) {
    client.stop();
    io->restart();
    io->run();
  } else {
    io.reset();
  }
  CHECK(a.ends == 1);
  CHECK(b.ends == (is_stopped ? 1 : 0));
}

TEST_CASE("cancelling a command that has ended changes nothing, and a stopped client has no limits") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  asked a{client, redis::command{"ECHO", "x"}};
  while (client.stats().answered == 0) io.run_one();
  a.cancel.emit(net::cancellation_type::total);
  io.run();
  CHECK(a.ends == 1);
  CHECK(a.text == "x");
  client.stop();
  redis::semaphore slots{client, "s", {.permits = 1}};
  std::optional<std::error_code> ec;
  slots.async_acquire({}, [&](std::error_code e, const redis::permit&) { ec = e; });
  io.restart();
  while (!ec && io.run_one() != 0) {
  }
  CHECK(ec);
}

TEST_CASE("a context whose time goes before the client takes the commands along") {
  auto io = std::make_unique<net::io_context>();
  // What is made first goes last: the time does, as a rule.
  net::use_service<canigo::detail::context_service>(*io);
  redis::client client{*io, "unix:/nonexistent/redis.sock"};
  asked a{client, redis::command{"PING"}};
  while (client.stats().failures == 0) io->poll();
  io.reset();
  CHECK(a.ends == 0);
}

TEST_CASE("time runs out for many while all are stopped: each ends once") {
  net::io_context io;
  canigo::time_source_control clock{io, {}};
  redis::client client{io, "unix:/nonexistent/redis.sock", {.queue_limit = 20'000}};
  constexpr int count = 20'000;
  int ends = 0, good = 0;
  for (int i = 0; i < count; ++i) {
    client.async_run(redis::command{"PING"}.with_timeout(1s + canigo::duration{i}),
                     [&](std::error_code ec, const redis::reply&) {
                       ++ends;
                       good += ec == errc::stopped || ec == errc::store_unavailable;
                     });
  }
  io.poll();
  std::atomic<bool> may_go{false};
  std::thread time{[&] {
    may_go = true;
    clock.advance(clock.now() + 2s);
  }};
  while (!may_go) std::this_thread::yield();
  client.stop();
  io.restart();
  io.poll();
  time.join();
  io.restart();
  io.run();
  CHECK(ends == count);
  CHECK(good == count);
}
