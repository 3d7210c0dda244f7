#include "canigo/redis/client.hpp"

#include "canigo/cancel_after.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/timeout.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "redis/scripted.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/strand.hpp>
#include <asio/use_future.hpp>

#include <atomic>
#include <filesystem>
#include <iterator>
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

const net::cancellation_type every_type[] = {net::cancellation_type::terminal, net::cancellation_type::partial,
                                             net::cancellation_type::total};

}  // namespace

TEST_CASE("a command is answered, and an idle client keeps no loop running") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  CHECK(run_to_end(io, client.run("SET", "key", 42)).text() == "OK");
  CHECK(run_to_end(io, client.run("GET", std::string{"key"})).text() == "42");
  CHECK(run_to_end(io, client.run("INCR", "n")).integer() == 1);
  CHECK(run_to_end(io, client.run("GET", "none")).is_nil());
  CHECK(run_to_end(io, client.run("KEYS", "*")).elements().size() == 2);
  CHECK(client.stats().connects == 1);
  CHECK(client.stats().answered == 5);
}

TEST_CASE("an address in numbers needs no thread that looks it up") {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks{"/proc/self/task"};
    return std::distance(begin(tasks), end(tasks));
  };
  net::io_context io;
  for (const std::string host : {"127.0.0.1", "[::1]"}) {
    redis::client client{io, "redis://" + host + ":1"};
    const auto before = threads();
    CHECK(error_of(io, client.run("PING")));
    CHECK(threads() == before);
  }
}

TEST_CASE("an error reply is an exception with its text") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  CHECK(error_of(io, client.run("EVALSHA", std::string(40, '0'), 0)) == redis::error::no_script);
  CHECK(what_of(io, client.run("NOSUCH")).find("unknown command") != std::string::npos);
  run_to_end(io, client.run("SET", "text", "x"));
  CHECK(error_of(io, client.run("LPUSH", "text", "y")) == redis::error::wrong_type);
  std::optional<std::error_code> ec;
  client.async_run(redis::command{"NOSUCH"}, [&](std::error_code e, const redis::reply& r) {
    ec = e;
    CHECK(r.is_error());
  });
  io.restart();
  io.run();
  CHECK(ec == redis::error::command_failed);
  CHECK(client.stats().connects == 1);
}

TEST_CASE("many commands are in flight, and each gets its own reply") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  int right = 0;
  for (int i = 0; i < 2000; ++i) {
    client.async_run(redis::command{"ECHO", i}, [&right, i](std::error_code ec, const redis::reply& r) {
      right += !ec && r.text() == std::to_string(i);
    });
  }
  io.run();
  CHECK(right == 2000);
  CHECK(client.stats().in_flight == 0);
}

TEST_CASE("several threads share a client") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  auto guard = net::make_work_guard(io);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back([&] { io.run(); });
  std::atomic<int> right{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        right += client.async_run(redis::command{"ECHO", t * 1000 + i}, net::use_future).get().integer() == 0;
      }
    });
  }
  for (std::size_t i = 2; i < threads.size(); ++i) threads[i].join();
  guard.reset();
  for (int i = 0; i < 2; ++i) threads[static_cast<std::size_t>(i)].join();
  CHECK(right == 900);
}

TEST_CASE("user, password and database are those of the URL") {
  redis_server server{{"--requirepass", "s3cret"}};
  net::io_context io;
  const std::string path = server.path();
  {
    redis::client client{io, "unix://:s3cret@" + path + "?db=3"};
    run_to_end(io, client.run("SET", "k", "v"));
    CHECK(run_to_end(io, client.run("CLIENT", "INFO")).text().find(" db=3 ") != std::string::npos);
    CHECK(run_to_end(io, client.run("CLIENT", "GETNAME")).text() == "canigo");
    run_to_end(io, client.run("ACL", "SETUSER", "joe", "on", ">p w", "~app:*", "+get", "+set"));
  }
  {
    redis::client client{io, "unix://joe:p%20w@" + path};
    CHECK(run_to_end(io, client.run("SET", "app:1", "x")).text() == "OK");
    CHECK(error_of(io, client.run("GET", "other")) == redis::error::no_permission);
  }
  // What will not get better is not waited for.
  const auto refused = [&](const std::string& url) {
    redis::client client{io, url};
    const auto ec = error_of(io, client.run("PING"));
    CHECK(what_of(io, client.run("PING")).find("s3cret") == std::string::npos);
    return ec;
  };
  CHECK(refused("unix://:wrong@" + path) == redis::error::wrong_password);
  CHECK(refused("unix:" + path) == redis::error::auth_required);
  CHECK(refused("unix://:s3cret@" + path + "?db=99") == redis::error::command_failed);
}

TEST_CASE("bad options are refused by name") {
  net::io_context io;
  const auto refused = [&](const redis::client_options& o) {
    try {
      redis::client client{io, "redis://h", o};
    } catch (const std::system_error& e) {
      return e.code() == errc::invalid_argument;
    }
    return false;
  };
  CHECK(refused({.connect_timeout = 0s}));
  CHECK(refused({.timeout = -1s}));
  CHECK(refused({.queue_limit = 0}));
  CHECK(refused({.max_reply = 10}));
  CHECK(refused({.name = "a b"}));
  CHECK_FALSE(refused({}));
}

TEST_CASE("a command that is cancelled in flight does not put the others out of step") {
  for (const auto type : every_type) {
    std::atomic<bool> asked{false};
    std::atomic<bool> may_answer{false};
    scripted_server server{[&](peer& p) -> net::awaitable<void> {
      co_await greet(p);
      co_await command_with(p, "b");
      asked = true;
      while (!may_answer) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
      co_await p.send("+for a\r\n+for b\r\n");
      co_await p.linger();
    }};
    net::io_context io;
    redis::client client{io, url_of(server)};
    net::cancellation_signal signal;
    std::optional<std::error_code> a;
    std::string b;
    client.async_run(
        redis::command{"GET", "a"},
        net::bind_cancellation_slot(signal.slot(), [&](std::error_code ec, const redis::reply&) { a = ec; }));
    client.async_run(redis::command{"GET", "b"}, [&](std::error_code, const redis::reply& r) { b = r.text(); });
    while (!asked) io.poll();
    signal.emit(type);
    CHECK_FALSE(a);
    while (!a) io.poll();
    CHECK(a == net::error::operation_aborted);
    CHECK(client.stats().in_flight == 2);
    may_answer = true;
    io.run();
    CHECK(b == "for b");
    CHECK(client.stats().in_flight == 0);
    CHECK(client.stats().connects == 1);
  }
}

TEST_CASE("one that waits for a connection can be cancelled, and is never sent") {
  net::io_context io;
  redis::client client{io, "unix:/nonexistent/redis.sock"};
  for (const auto type : every_type) {
    net::cancellation_signal signal;
    std::optional<std::error_code> result;
    client.async_run(
        redis::command{"PING"},
        net::bind_cancellation_slot(signal.slot(), [&](std::error_code ec, const redis::reply&) { result = ec; }));
    io.poll();
    signal.emit(type);
    io.restart();
    io.run();
    CHECK(result == net::error::operation_aborted);
  }
  CHECK(client.stats().sent == 0);
}

TEST_CASE("a reply that nobody waits for any more does not keep the loop running [realtime]", "[realtime]") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    co_await greet(p);
    co_await p.linger();
  }};
  net::io_context io;
  redis::client client{io, url_of(server)};
  net::cancellation_signal signal;
  client.async_run(redis::command{"PING"},
                   net::bind_cancellation_slot(signal.slot(), [](std::error_code, const redis::reply&) {}));
  while (client.stats().in_flight == 0) io.poll();
  signal.emit(net::cancellation_type::total);
  io.run();
  CHECK(client.stats().in_flight == 0);
}

TEST_CASE("a server that does not answer in time, and one that is not there [realtime]", "[realtime]") {
  net::io_context io;
  SECTION("silent: the command times out, and the next one gets a new connection") {
    scripted_server server{[](peer& p) -> net::awaitable<void> {
      co_await greet(p);
      if (p.number == 1) co_await p.linger();
      co_await command_with(p, "go");
      co_await p.send("+gone\r\n");
      co_await p.linger();
    }};
    redis::client client{io, url_of(server), {.timeout = 50ms}};
    CHECK(error_of(io, client.run("GET", "lost")) == errc::timed_out);
    CHECK(run_to_end(io, client.run(redis::command{"GET", "go"}.with_timeout(5s))).text() == "gone");
    CHECK(server.connections() == 2);
  }
  SECTION("half open: it accepts and says nothing") {
    scripted_server server{[](peer& p) -> net::awaitable<void> { co_await p.linger(); }};
    redis::client client{io, url_of(server), {.connect_timeout = 20ms, .timeout = 1s}};
    CHECK(error_of(io, client.run("PING")) == errc::store_unavailable);
    CHECK(server.connections() >= 2);
  }
  SECTION("nothing there: it says why") {
    redis::client client{io, "redis://127.0.0.1:1"};
    net::cancellation_signal enough;
    client.async_run(redis::command{"PING"}.with_timeout(1h),
                     net::bind_cancellation_slot(enough.slot(), [](std::error_code, const redis::reply&) {}));
    while (client.stats().failures == 0) io.run_one();
    // It knows by now, however long that took.
    enough.emit(net::cancellation_type::terminal);
    const auto ping = redis::command{"PING"}.with_timeout(1ms);
    const auto text = what_of(io, client.run(ping));
    CHECK(text.find("redis://127.0.0.1:1/0: ") == 0);
    CHECK(text.find("refused") != std::string::npos);
    CHECK(error_of(io, client.run(ping)) == errc::store_unavailable);
  }
  SECTION("a name that nobody knows") {
    redis::client client{io, "redis://no-such-host.invalid", {.timeout = 200ms}};
    CHECK(error_of(io, client.run("PING")) == errc::store_unavailable);
  }
}

TEST_CASE("a connection that breaks ends what was sent, and is made again for what comes") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    co_await greet(p);
    co_await command_with(p, "go");
    if (p.number < 3) co_return;
    co_await p.send("+at last\r\n");
    co_await p.linger();
  }};
  net::io_context io;
  redis::client client{io, url_of(server)};
  CHECK(error_of(io, client.run("GET", "go")) == redis::error::connection_lost);
  CHECK(error_of(io, client.run("GET", "go")) == redis::error::connection_lost);
  CHECK(run_to_end(io, client.run("GET", "go")).text() == "at last");
  CHECK(client.stats().failures == 2);
}

TEST_CASE("a server that has restarted meanwhile costs an idle client nothing") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  run_to_end(io, client.run("PING"));
  server.restart();
  CHECK(run_to_end(io, client.run("PING")).text() == "PONG");
  CHECK(client.stats().failures == 0);
  CHECK(client.stats().connects == 2);
}

TEST_CASE("hostile replies end the connection with a clear error") {
  net::io_context io;
  const auto error_for = [&](std::string text) {
    scripted_server server{says(std::move(text))};
    redis::client client{io, url_of(server), {.max_reply = 4096}};
    return error_of(io, client.run("GET", "go"));
  };
  CHECK(error_for("?what\r\n") == redis::error::bad_reply);
  CHECK(error_for("$10000\r\n" + std::string(10'000, 'x') + "\r\n") == errc::too_large);
  CHECK(error_for("+" + std::string(10'000, 'x')) == errc::too_large);
  CHECK(error_for("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n") == redis::error::bad_reply);
}

TEST_CASE("an answer to nothing is no answer to the next command") {
  scripted_server server{says("+one\r\n+two\r\n", "+mine\r\n")};
  net::io_context io;
  redis::client client{io, url_of(server)};
  CHECK(run_to_end(io, client.run("GET", "go")).text() == "one");
  CHECK(run_to_end(io, client.run("GET", "go")).text() == "mine");
}

TEST_CASE("a server that is a replica now is left") {
  scripted_server server{says("-READONLY You can't write against a read only replica.\r\n", "+master\r\n")};
  net::io_context io;
  redis::client client{io, url_of(server)};
  CHECK(error_of(io, client.run("SET", "go")) == redis::error::read_only);
  CHECK(run_to_end(io, client.run("SET", "go")).text() == "master");
  CHECK(server.connections() == 2);
}

TEST_CASE("sentinels are asked for the master") {
  scripted_server master{[](peer& p) -> net::awaitable<void> {
    co_await command_with(p, "ROLE");
    co_await p.send(usual_greeting + "*1\r\n$6\r\nmaster\r\n");
    co_await command_with(p, "go");
    co_await p.send("+from the master\r\n");
    co_await p.linger();
  }};
  const std::string port = std::to_string(master.port());
  const auto sentinel = [](std::string text) {
    return [text = std::move(text)](peer& p) -> net::awaitable<void> {
      co_await command_with(p, "main");
      co_await p.send(text);
      co_await p.linger();
    };
  };
  scripted_server knows{sentinel("*2\r\n$9\r\n127.0.0.1\r\n$" + std::to_string(port.size()) + "\r\n" + port + "\r\n")};
  scripted_server does_not{sentinel("*-1\r\n")};
  net::io_context io;
  const auto address = [](const scripted_server& s) { return "127.0.0.1:" + std::to_string(s.port()); };
  redis::client client{io, "redis+sentinel://127.0.0.1:1," + address(does_not) + "," + address(knows) + "/main"};
  CHECK(run_to_end(io, client.run("GET", "go")).text() == "from the master");
  // One that accepts and never answers does not keep the others from being asked.
  scripted_server silent{[](peer& p) -> net::awaitable<void> { co_await p.linger(); }};
  redis::client another{
      io, "redis+sentinel://" + address(silent) + "," + address(knows) + "/main", {.connect_timeout = 1s}};
  CHECK(run_to_end(io, another.run("GET", "go")).text() == "from the master");
}

TEST_CASE("stopping ends every command, and every later one") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  run_to_end(io, client.run("PING"));
  io.restart();
  int stopped = 0;
  const auto count = [&](std::error_code ec, const redis::reply&) { stopped += ec == errc::stopped; };
  SECTION("in flight") {
    for (int i = 0; i < 5; ++i) client.async_run(redis::command{"BLPOP", "none", 0}, count);
    while (client.stats().in_flight == 0) io.poll();
  }
  SECTION("not sent yet") {
    for (int i = 0; i < 5; ++i) client.async_run(redis::command{"PING"}, count);
  }
  client.stop();
  client.stop();
  CHECK(stopped == 0);
  client.async_run(redis::command{"PING"}, count);
  io.restart();
  io.run();
  CHECK(stopped == 6);
}

TEST_CASE("a client that is destroyed ends its commands") {
  redis_server server;
  net::io_context io;
  auto client = std::make_unique<redis::client>(io, server.url());
  int stopped = 0;
  for (int i = 0; i < 5; ++i) {
    client->async_run(redis::command{"BLPOP", "none", 0},
                      [&](std::error_code ec, const redis::reply&) { stopped += ec == errc::stopped; });
  }
  SECTION("before anything has happened") {}
  SECTION("while it connects") { io.poll_one(); }
  SECTION("in flight") {
    while (client->stats().in_flight == 0) io.poll();
  }
  client.reset();
  io.restart();
  io.run();
  CHECK(stopped == 5);
}

TEST_CASE("the context of a client may be destroyed first, in every phase") {
  redis_server server;
  auto io = std::make_unique<net::io_context>();
  redis::client client{*io, server.url()};
  const auto never = [held = std::make_shared<int>(1)](std::error_code, const redis::reply&) { FAIL("called"); };
  SECTION("unused") {}
  SECTION("before anything was sent") { client.async_run(redis::command{"PING"}, never); }
  SECTION("while it connects") {
    client.async_run(redis::command{"PING"}, never);
    for (int i = 0; i < 3; ++i) io->poll_one();
  }
  SECTION("in flight") {
    client.async_run(redis::command{"BLPOP", "none", 0}, never);
    while (client.stats().in_flight == 0) io->poll();
  }
  SECTION("idle") { run_to_end(*io, client.run("PING")); }
  SECTION("stopped, and the ends not delivered") {
    client.async_run(redis::command{"BLPOP", "none", 0}, never);
    while (client.stats().in_flight == 0) io->poll();
    client.stop();
  }
  io.reset();
  client.async_run(redis::command{"PING"}, never);  // goes nowhere, harmlessly
  client.stop();
}

TEST_CASE("a client may live in a coroutine that the context destroys, and be destroyed in a completion") {
  redis_server server;
  {
    net::io_context io;
    const auto work = [&]() -> net::awaitable<void> {
      redis::client client{co_await net::this_coro::executor, server.url()};
      co_await client.run("BLPOP", "none", 0);
    };
    net::co_spawn(io, work(), net::detached);
    for (int i = 0; i < 50; ++i) io.poll();
  }
  net::io_context io;
  auto client = std::make_unique<redis::client>(io, server.url());
  int calls = 0;
  for (int i = 0; i < 5; ++i) {
    client->async_run(redis::command{"PING"}, [&](std::error_code, const redis::reply&) {
      client.reset();
      ++calls;
    });
  }
  io.run();
  CHECK(calls == 5);
}

TEST_CASE("cancellation races with the reply, and each command ends once") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  auto guard = net::make_work_guard(io);
  std::vector<std::thread> loops;
  for (int i = 0; i < 3; ++i) loops.emplace_back([&] { io.run(); });
  std::atomic<int> ended{0};
  std::atomic<int> good{0};
  constexpr int count = 1000;
  for (int i = 0; i < count; ++i) {
    auto strand = net::make_strand(io);
    auto signal = std::make_shared<net::cancellation_signal>();
    net::post(strand, [&, i, strand, signal] {
      client.async_run(
          redis::command{"ECHO", i},
          net::bind_cancellation_slot(
              signal->slot(), net::bind_executor(strand, [&, i, signal](std::error_code ec, const redis::reply& r) {
                good += ec == net::error::operation_aborted || (!ec && r.text() == std::to_string(i));
                ++ended;
              })));
    });
    for (int k = 0; k < i % 40; ++k) std::this_thread::yield();
    net::post(strand, [signal] { signal->emit(net::cancellation_type::partial); });
  }
  while (ended < count) std::this_thread::yield();
  guard.reset();
  for (auto& t : loops) t.join();
  CHECK(good == count);
}

TEST_CASE("a full queue refuses") {
  net::io_context io;
  redis::client client{io, "unix:/nonexistent/redis.sock", {.queue_limit = 2}};
  int full = 0;
  for (int i = 0; i < 3; ++i) {
    client.async_run(redis::command{"PING"},
                     [&](std::error_code ec, const redis::reply&) { full += ec == errc::queue_full; });
  }
  io.poll();
  CHECK(full == 1);
  client.stop();
  io.run();
}
