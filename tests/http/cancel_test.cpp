#include "canigo/detail/context/context_service.hpp"
#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/net.hpp"
#include "canigo/time_source.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/detached.hpp>
#include <asio/error.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using namespace http_test;
using namespace std::chrono_literals;
using canigo::errc;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

const http::client_options no_proxy{.proxy = ""};

/// Sends, runs the loop until `ready`, cancels, and runs it to its end.
std::error_code cancelled(http::client& client, net::io_context& io, http::request r, net::cancellation_type type,
                          const std::function<bool()>& ready) {
  net::cancellation_signal signal;
  std::optional<std::error_code> result;
  client.async_send(std::move(r), net::bind_cancellation_slot(
                                      signal.slot(), [&](std::error_code ec, const http::response&) { result = ec; }));
  while (!ready()) io.poll();
  CHECK_FALSE(result);
  signal.emit(type);
  CHECK_FALSE(result);
  io.restart();
  io.run();
  REQUIRE(result);
  CHECK(client.stats().waiting + client.stats().running == 0);
  return *result;
}

const net::cancellation_type every_type[] = {net::cancellation_type::terminal, net::cancellation_type::partial,
                                             net::cancellation_type::total};

}  // namespace

TEST_CASE("a request can be cancelled in every phase, in every way") {
  net::io_context io;
  for (const auto type : every_type) {
    http::client client{io, no_proxy};
    SECTION("before anything has happened " + std::to_string(static_cast<int>(type))) {
      scripted_server server{answer(ok("x"))};
      CHECK(cancelled(client, io, {server.url()}, type, [] { return true; }) == net::error::operation_aborted);
      CHECK(server.connections() == 0);
    }
    SECTION("while it connects " + std::to_string(static_cast<int>(type))) {
      full_port server;
      CHECK(cancelled(client, io, {server.url()}, type, [&] { return client.stats().running == 1; }) ==
            net::error::operation_aborted);
    }
    SECTION("while the server thinks " + std::to_string(static_cast<int>(type))) {
      std::atomic<bool> asked{false};
      scripted_server server{[&](peer& p) -> net::awaitable<void> {
        co_await p.request();
        asked = true;
        co_await p.linger();
      }};
      CHECK(cancelled(client, io, {server.url()}, type, [&] { return asked.load(); }) == net::error::operation_aborted);
      while (server.open() != 0) std::this_thread::yield();  // the connection is gone with it
    }
    SECTION("in the middle of the body " + std::to_string(static_cast<int>(type))) {
      std::atomic<bool> asked{false};
      scripted_server server{[&](peer& p) -> net::awaitable<void> {
        co_await p.request();
        co_await p.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        asked = true;
        co_await p.linger();
      }};
      CHECK(cancelled(client, io, {server.url()}, type, [&] { return asked.load(); }) == net::error::operation_aborted);
      while (server.open() != 0) std::this_thread::yield();
    }
    SECTION("while it sends a body that nobody reads " + std::to_string(static_cast<int>(type))) {
      std::atomic<bool> connected{false};
      std::atomic<bool> done{false};
      scripted_server server{[&](peer&) -> net::awaitable<void> {
        connected = true;
        while (!done) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
      }};
      auto r = http::request{"POST", server.url()}.with_body(std::string(16 << 20, 'x'));
      CHECK(cancelled(client, io, std::move(r), type, [&] { return connected.load(); }) ==
            net::error::operation_aborted);
      done = true;
    }
  }
}

TEST_CASE("one that waits for a connection can be cancelled, and the next one goes") {
  std::atomic<bool> answered{false};
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    co_await p.request();
    while (!answered) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
    for (;;) {
      co_await p.send(ok("x"));
      co_await p.request();
    }
  }};
  net::io_context io;
  http::client_options one = no_proxy;
  one.connections = 1;
  http::client client{io, one};
  net::cancellation_signal signal;
  std::string order;
  const auto note = [&](char name) {
    return [&order, name](std::error_code ec, const http::response&) { (order += name) += ec ? '-' : '+'; };
  };
  client.async_send(http::request{server.url()}, note('a'));
  client.async_send(http::request{server.url()}, net::bind_cancellation_slot(signal.slot(), note('b')));
  client.async_send(http::request{server.url()}, note('c'));
  while (client.stats().waiting != 2) io.poll();
  signal.emit(net::cancellation_type::total);
  while (order.empty()) io.poll();
  CHECK(order == "b-");
  CHECK(client.stats().running == 1);
  CHECK(client.stats().waiting == 1);
  CHECK(client.stats().finished == 1);
  answered = true;
  io.restart();
  io.run();
  CHECK(order == "b-a+c+");
  CHECK(client.stats().running == 0);
  CHECK(client.stats().waiting == 0);
  CHECK(client.stats().finished == 3);
}

TEST_CASE("cancelling what has ended changes nothing") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client client{io, no_proxy};
  net::cancellation_signal signal;
  int calls = 0;
  client.async_send(http::request{server.url()},
                    net::bind_cancellation_slot(signal.slot(), [&](std::error_code ec, const http::response&) {
                      CHECK(!ec);
                      ++calls;
                    }));
  // Its end is posted, and not delivered yet.
  while (client.stats().finished == 0) io.run_one();
  signal.emit(net::cancellation_type::terminal);
  io.run();
  signal.emit(net::cancellation_type::terminal);
  CHECK(calls == 1);
}

TEST_CASE("a coroutine that is cancelled cancels its request") {
  scripted_server server{silence()};
  net::io_context io;
  http::client client{io, no_proxy};
  net::cancellation_signal signal;
  std::optional<std::error_code> result;
  const auto work = [&]() -> net::awaitable<void> {
    try {
      co_await client.get(server.url());
    } catch (const std::system_error& e) {
      result = e.code();
    }
  };
  net::co_spawn(io, work(), net::bind_cancellation_slot(signal.slot(), net::detached));
  while (server.connections() == 0) io.poll();
  signal.emit(net::cancellation_type::terminal);
  io.restart();
  io.run();
  CHECK(result == net::error::operation_aborted);
}

TEST_CASE("cancellation races with the response, and each request ends once") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client_options options = no_proxy;
  options.connections = 8;
  http::client client{io, options};
  auto guard = net::make_work_guard(io);
  std::vector<std::thread> loops;
  for (int i = 0; i < 3; ++i) loops.emplace_back([&] { io.run(); });
  std::atomic<int> ended{0};
  std::atomic<int> good{0};
  constexpr int count = 400;
  for (int i = 0; i < count; ++i) {
    // A signal may be used from one strand only, which is also where its handler runs.
    auto strand = net::make_strand(io);
    auto signal = std::make_shared<net::cancellation_signal>();
    net::post(strand, [&, strand, signal] {
      client.async_send(
          http::request{server.url()},
          net::bind_cancellation_slot(
              signal->slot(), net::bind_executor(strand, [&, signal](std::error_code ec, const http::response& r) {
                if (ec == net::error::operation_aborted || (!ec && r.status == 200)) ++good;
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
  CHECK(client.stats().waiting + client.stats().running == 0);
}

TEST_CASE("stopping ends every request, and every later one") {
  scripted_server server{silence()};
  net::io_context io;
  http::client_options options = no_proxy;
  options.connections = 4;
  http::client client{io, options};
  int stopped = 0;
  const auto count = [&](std::error_code ec, const http::response&) { stopped += ec == errc::stopped; };
  for (int i = 0; i < 10; ++i) client.async_send(http::request{server.url()}, count);
  while (server.connections() != 4) io.poll();
  client.stop();
  client.stop();
  CHECK(stopped == 0);
  client.async_send(http::request{server.url()}, count);
  io.restart();
  io.run();
  CHECK(stopped == 11);
  while (server.open() != 0) std::this_thread::yield();
}

TEST_CASE("a client that is destroyed ends its requests") {
  scripted_server server{silence()};
  net::io_context io;
  auto client = std::make_unique<http::client>(io, no_proxy);
  int stopped = 0;
  for (int i = 0; i < 30; ++i) {
    client->async_send(http::request{server.url()},
                       [&](std::error_code ec, const http::response&) { stopped += ec == errc::stopped; });
  }
  SECTION("before any was sent") {}
  SECTION("while they are under way") {
    while (server.connections() != 16) io.poll();
  }
  client.reset();
  io.restart();
  io.run();
  CHECK(stopped == 30);
}

TEST_CASE("a client may be destroyed in the completion of its own request") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  auto client = std::make_unique<http::client>(io, no_proxy);
  int calls = 0;
  for (int i = 0; i < 5; ++i) {
    client->async_send(http::request{server.url()}, [&](std::error_code, const http::response&) {
      client.reset();
      ++calls;
    });
  }
  io.run();
  CHECK(calls == 5);
}

TEST_CASE("the context may be destroyed first, in every phase") {
  scripted_server silent{silence()};
  scripted_server quick{answer(ok("x"))};
  auto io = std::make_unique<net::io_context>();
  http::client client{*io, no_proxy};
  const auto never = [held = std::make_shared<int>(1)](std::error_code, const http::response&) { FAIL("called"); };
  SECTION("unused") {}
  SECTION("before anything was sent") { client.async_send(http::request{silent.url()}, never); }
  SECTION("under way, with others waiting") {
    for (int i = 0; i < 40; ++i) client.async_send(http::request{silent.url()}, never);
    while (silent.connections() != 16) io->poll();
  }
  SECTION("with idle connections") { run_to_end(*io, client.get(quick.url())); }
  SECTION("with an end that is posted and not delivered") {
    client.async_send(http::request{quick.url()}, never);
    while (client.stats().finished == 0) io->run_one();
  }
  SECTION("stopped, and the ends not delivered") {
    for (int i = 0; i < 4; ++i) client.async_send(http::request{silent.url()}, never);
    while (silent.connections() != 4) io->poll();
    client.stop();
  }
  io.reset();
  client.async_send(http::request{silent.url()}, never);  // goes nowhere, harmlessly
  client.stop();
}

TEST_CASE("the context may be destroyed while another thread drops the client") {
  scripted_server silent{silence()};
  scripted_server quick{answer(ok("x"))};
  enum class state { unused, begun, under_way, idle, last };
  for (int round = 0; round < 60; ++round) {
    for (int s = 0; s < static_cast<int>(state::last); ++s) {
      auto io = std::make_unique<net::io_context>();
      // What is made first goes last, so the reactor would be gone before the requests.
      net::use_service<canigo::detail::context_service>(*io);
      auto client = std::make_unique<http::client>(*io, no_proxy);
      auto held = std::make_shared<int>(1);
      const std::weak_ptr<int> watched = held;
      const auto send = [&] {
        client->async_send(http::request{silent.url()},
                           [held = std::move(held)](std::error_code, const http::response&) { std::abort(); });
      };
      if (s == static_cast<int>(state::begun)) send();
      if (s == static_cast<int>(state::under_way)) {
        const unsigned before = silent.connections();
        send();
        while (silent.connections() == before) io->poll();
      }
      if (s == static_cast<int>(state::idle)) run_to_end(*io, client->get(quick.url()));
      held.reset();
      std::atomic<int> ready{0};
      const auto together = [&] {
        ++ready;
        while (ready < 2) std::this_thread::yield();
      };
      std::thread other{[&] {
        together();
        for (int i = 0; i < round; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
        client.reset();
      }};
      together();
      for (int i = 0; i < 60 - round; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
      io.reset();
      other.join();
      CHECK(watched.expired());
    }
  }
}

TEST_CASE("a context whose time goes before the client takes the requests along") {
  full_port server;
  auto io = std::make_unique<net::io_context>();
  // What is made first goes last: the time does, as a rule.
  net::use_service<canigo::detail::context_service>(*io);
  http::client client{*io, no_proxy};
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  client.async_send(http::request{server.url()},
                    [held = std::move(held)](std::error_code, const http::response&) { FAIL("called"); });
  while (client.stats().running == 0) io->poll();
  io.reset();
  CHECK(watched.expired());
}

TEST_CASE("one that is stopped while its time runs out ends once") {
  scripted_server server{silence()};
  net::io_context io;
  canigo::time_source_control clock{io, {}};
  http::client client{io, no_proxy};
  std::vector<std::error_code> ends;
  client.async_send(http::request{server.url()},
                    [&](std::error_code ec, const http::response&) { ends.push_back(ec); });
  while (server.connections() == 0) io.poll();
  clock.advance(clock.now() + 30s);  // which nobody has looked at yet
  client.stop();
  io.restart();
  io.run();
  CHECK(ends == std::vector<std::error_code>{errc::stopped});
}

TEST_CASE("what a stopped client has not ended yet goes with the context, however much it is", "[loop_turns]") {
  constexpr int many = 2000;  // one turn of work ends half of them
  full_port nobody;
  const auto life = std::make_shared<int>();
  auto io = std::make_unique<net::io_context>();
  canigo::time_source_control clock{*io, {}};
  http::client client{*io, {.connections = 1, .connect_timeout = 1h, .timeout = 1s, .proxy = ""}};
  int ends = 0;
  for (int i = 0; i < many; ++i) {
    client.async_send(http::request{nobody.url()}, [&, life](std::error_code, const http::response&) { ++ends; });
  }
  io->poll();
  clock.advance(clock.now() + 1s);
  client.stop();
  io->restart();
  io->poll_one();
  io.reset();
  CHECK(ends == 0);
  CHECK(life.use_count() == 1);
}

TEST_CASE("one whose time runs out just as its turn comes ends once") {
  scripted_server silent{silence()};
  scripted_server quick{answer(ok("x"))};
  net::io_context io;
  canigo::time_source_control clock{io, {}};
  http::client_options one = no_proxy;
  one.connections = 1;
  http::client client{io, one};
  net::cancellation_signal signal;
  client.async_send(http::request{silent.url()},
                    net::bind_cancellation_slot(signal.slot(), [](std::error_code ec, const http::response&) {
                      CHECK(ec == net::error::operation_aborted);
                    }));
  std::vector<std::error_code> ends;
  client.async_send(http::request{quick.url()}.with_timeout(1s),
                    [&](std::error_code ec, const http::response&) { ends.push_back(ec); });
  while (client.stats().running == 0 || client.stats().waiting == 0) io.poll();
  // Its turn comes before the client hears that its time is up: there is too much in between for one look.
  signal.emit(net::cancellation_type::total);
  int good = 0;
  for (int i = 0; i < 100; ++i) {
    client.async_send(http::request{quick.url()}, [&](std::error_code ec, const http::response&) { good += !ec; });
  }
  clock.advance(clock.now() + 1s);
  io.restart();
  io.run();
  CHECK(ends == std::vector<std::error_code>{errc::timed_out});
  CHECK(good == 100);
}

TEST_CASE("curl's own time and much news at once do not get in each other's way") {
  full_port nobody;
  scripted_server quick{answer(ok("x"))};
  net::io_context io;
  canigo::time_source_control clock{io, {}};
  http::client_options patient = no_proxy;
  patient.connect_timeout = 1h;
  patient.timeout = 2h;
  http::client client{io, patient};
  std::vector<std::error_code> ends;
  client.async_send(http::request{nobody.url()},
                    [&](std::error_code ec, const http::response&) { ends.push_back(ec); });
  while (client.stats().running == 0) io.poll();
  int good = 0;
  for (int i = 0; i < 100; ++i) {
    client.async_send(http::request{quick.url()}, [&](std::error_code ec, const http::response&) { good += !ec; });
  }
  clock.advance(clock.now() + 1h);
  io.restart();
  io.run();
  CHECK(ends == std::vector<std::error_code>{errc::timed_out});
  CHECK(good == 100);
}

TEST_CASE("requests that come as curl's own time passes begin at once") {
  std::atomic<bool> has_come{false};
  scripted_server slow{[&](peer& p) -> net::awaitable<void> {
    co_await p.up_to("\r\n\r\n");
    has_come = true;
    co_await p.linger();
  }};
  scripted_server quick{answer(ok("x"))};
  net::io_context io;
  canigo::time_source_control clock{io, {}};
  http::client client{io, no_proxy};
  net::cancellation_signal signal;
  auto post = http::request{"POST", slow.url()}.with_body("x").with_header("Expect", "100-continue").with_timeout(2h);
  client.async_send(std::move(post),
                    net::bind_cancellation_slot(signal.slot(), [](std::error_code, const http::response&) {}));
  while (!has_come) io.poll();
  io.poll();
  int good = 0;
  int ended = 0;
  for (int i = 0; i < 100; ++i) {  // more than the client looks at before it calls curl
    client.async_send(http::request{quick.url()}, [&](std::error_code ec, const http::response&) {
      good += !ec;
      if (++ended == 100) signal.emit(net::cancellation_type::terminal);
    });
  }
  clock.advance(clock.now() + 1s);  // curl waits so long for the answer of the slow one
  io.restart();
  io.run();
  CHECK(good == 100);
}

TEST_CASE("a client may live in a coroutine that the context destroys") {
  scripted_server server{silence()};
  std::thread::id here = std::this_thread::get_id();
  {
    net::io_context io;
    const auto work = [&]() -> net::awaitable<void> {
      http::client client{co_await net::this_coro::executor, no_proxy};
      co_await client.get(server.url());
    };
    net::co_spawn(io, work(), net::detached);
    while (server.connections() == 0) io.poll();
  }
  CHECK(here == std::this_thread::get_id());
}

TEST_CASE("requests end in time [realtime]", "[realtime]") {
  net::io_context io;
  http::client_options options = no_proxy;
  options.timeout = 50ms;
  const std::string too_late = ": " + make_error_code(errc::timed_out).message();
  const auto begin = std::chrono::steady_clock::now();
  SECTION("a server that does not answer") {
    scripted_server server{silence()};
    http::client client{io, options};
    CHECK(error_of(io, client.get(server.url())) == errc::timed_out);
    CHECK(error_of(io, client.send(http::request{server.url()}.with_timeout(10ms))) == std::errc::timed_out);
    // The text is that of a server that was reached. 2 s are enough for that on a busy machine, too.
    CHECK(text_of(io, client.send(http::request{server.url()}.with_timeout(2s))) ==
          "request.timeout of 2s passed before a header of the response came" + too_late);
  }
  SECTION("a server that goes on for ever") {
    scripted_server server{[](peer& p) -> net::awaitable<void> {
      co_await p.request();
      co_await p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
      for (;;) {
        co_await p.send("1\r\nx\r\n");
        for (int i = 0; i < 100; ++i) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
      }
    }};
    options.timeout = 2s;
    http::client client{io, options};
    CHECK(text_of(io, client.get(server.url())) ==
          "client_options.timeout of 2s passed before the response was complete" + too_late);
  }
  SECTION("one that can't be connected to: its own timeout") {
    full_port server;
    options.timeout = canigo::duration::max();
    options.connect_timeout = 50ms;
    http::client client{io, options};
    CHECK(text_of(io, client.get(server.url())) ==
          "client_options.connect_timeout of 50ms passed before the server was reached" + too_late);
  }
  SECTION("a TLS handshake that does not come to its end counts as connecting") {
    scripted_server server{[](peer& p) -> net::awaitable<void> { co_await p.linger(); }};
    options.timeout = 10s;
    options.connect_timeout = 2s;  // enough to reach the server on a busy machine, too
    http::client client{io, options};
    CHECK(text_of(io, client.get("https" + server.url().substr(4))) ==
          "client_options.connect_timeout of 2s passed before TLS was set up, or a proxy had reached the server" +
              too_late);
  }
  SECTION("where a redirect leads can't be connected to: it has as much time again") {
    full_port nobody;
    scripted_server silent{[](peer& p) -> net::awaitable<void> { co_await p.linger(); }};
    std::string url;
    std::string missing;
    SECTION("by TCP") {
      url = nobody.url();
      missing = "the server was reached";
    }
    SECTION("by TLS") {
      url = "https" + silent.url().substr(4);
      missing = "TLS was set up, or a proxy had reached the server";
    }
    scripted_server server{answer("HTTP/1.1 302 Found\r\nLocation: " + url + "\r\nContent-Length: 0\r\n\r\n")};
    options.timeout = 10s;
    options.connect_timeout = 2s;  // enough to reach the first server on a busy machine, too
    http::client client{io, options};
    CHECK(text_of(io, client.get(server.url())) ==
          "client_options.connect_timeout of 2s passed before " + missing + too_late);
  }
  SECTION("the wait for a connection counts") {
    scripted_server server{silence()};
    options.connections = 1;
    options.timeout = 10s;
    http::client client{io, options};
    client.async_send(http::request{server.url()},
                      [](std::error_code ec, const http::response&) { CHECK(ec == errc::stopped); });
    std::optional<std::error_code> result;
    client.async_send(http::request{server.url()}.with_timeout(50ms), [&](std::error_code ec, const http::response& r) {
      result = ec;
      CHECK(r.problem.starts_with("in the queue for 127.0.0.1:"));
      CHECK(behind_host(r.problem) == "request.timeout of 50ms passed before one of the client's connections was free");
      client.stop();
    });
    io.run();
    CHECK(result == errc::timed_out);
  }
  SECTION("connecting within its time does not shorten the rest") {
    std::atomic<bool> late{false};
    scripted_server server{[&](peer& p) -> net::awaitable<void> {
      co_await p.request();
      while (!late) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
      co_await p.send(ok("x"));
    }};
    options.connect_timeout = 1s;  // enough to reach the server on a busy machine, too
    options.timeout = 10s;
    http::client client{io, options};
    net::steady_timer timer{io, 1500ms};
    timer.async_wait([&](std::error_code) { late = true; });
    CHECK(run_to_end(io, client.get(server.url())).status == 200);
  }
  CHECK(std::chrono::steady_clock::now() - begin < 8s);
}
