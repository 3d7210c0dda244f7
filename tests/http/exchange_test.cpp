#include "canigo/http/exchange.hpp"

#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/net.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/buffer.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace http_test;
using namespace std::chrono_literals;
using canigo::errc;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

const http::client_options proxyless{.proxy = ""};

/// Bytes that tell their place.
std::string numbered(std::size_t size) {
  std::string text;
  text.reserve(size + 20);
  for (std::size_t i = 0; text.size() < size; ++i) text.append(std::to_string(i)).append(" ");
  text.resize(size);
  return text;
}

/// The rest of the body, read in parts of this size at most.
net::awaitable<std::string> read_all(http::exchange& x, std::size_t part) {
  std::string all;
  std::vector<char> room(part);
  while (const std::size_t n = co_await x.read_some(net::buffer(room))) all.append(room.data(), n);
  co_return all;
}

// A CHECK with a co_await inside would make g++ await it twice.

/// One read gives this many bytes.
net::awaitable<void> expect_bytes(http::exchange& x, std::span<char> room, std::size_t size) {
  const std::size_t n = co_await x.read_some(net::buffer(room.data(), room.size()));
  CHECK(n == size);
}

/// One read ends with this error.
net::awaitable<void> expect_error(http::exchange& x, std::error_code expected) {
  std::error_code ec;
  std::array<char, 100> room{};
  try {
    co_await x.read_some(net::buffer(room));
  } catch (const std::system_error& e) {
    ec = e.code();
  }
  CHECK(ec == expected);
}

/// Answers "/big" with a body of this size, and anything else with "small".
scripted_server::script big(std::size_t size) {
  return [large = ok(numbered(size)), small = ok("small")](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      const std::string& reply = request.starts_with("GET /big ") ? large : small;
      co_await p.send(reply);
    }
  };
}

const std::string head_of_ten = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nX-A: b\r\n\r\n";

/// Sends a head that promises ten bytes, and then these.
scripted_server::script begun(std::string_view bytes) {
  return [text = head_of_ten + std::string{bytes}](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send(text);
    co_await p.linger();
  };
}

}  // namespace

TEST_CASE("an exchange has the head before the body comes, and then reads the body") {
  std::atomic<bool> is_open{false};
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send(head_of_ten);
    while (!is_open) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
    co_await p.send("0123456789");
    co_await p.linger();
  }};
  net::io_context io;
  http::client client{io, proxyless};
  const auto work = [&]() -> net::awaitable<std::string> {
    http::exchange x = co_await client.open(server.url("/x"));
    CHECK(x.head().status == 200);
    CHECK(x.head().headers.find("X-A") == std::string_view{"b"});
    CHECK(x.head().url == server.url("/x"));
    CHECK(x.head().timing.first_byte >= x.head().timing.connected);
    CHECK(x.head().timing.connected > 0ns);
    CHECK(x.head().timing.total == 0ns);
    CHECK(client.stats().running == 1);
    is_open = true;
    std::string all = co_await read_all(x, 4);
    CHECK(client.stats().running == 0);
    std::array<char, 1> room{};
    co_await expect_bytes(x, room, 0);  // the end stays the end
    co_return all;
  };
  CHECK(run_to_end(io, work()) == "0123456789");
}

TEST_CASE("a body arrives whole, whatever the size of the reads") {
  constexpr std::size_t size = 300'000;
  scripted_server server{big(size)};
  net::io_context io;
  http::client client{io, proxyless};
  for (const std::size_t part : std::array<std::size_t, 5>{97, 4096, 16384, 100'000, 1'000'000}) {
    const auto work = [&]() -> net::awaitable<std::string> {
      http::exchange x = co_await client.open(server.url("/big"));
      co_return co_await read_all(x, part);
    };
    CHECK(run_to_end(io, work()) == numbered(size));
  }
  CHECK(server.connections() == 1);  // an exchange that was read to its end keeps its connection
}

TEST_CASE("an exchange without a body ends at once") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      const std::string reply = request.starts_with("HEAD") ? head_of_ten : "HTTP/1.1 204 No Content\r\n\r\n";
      co_await p.send(reply);
    }
  }};
  net::io_context io;
  http::client client{io, proxyless};
  const auto work = [&](const char* method) -> net::awaitable<int> {
    http::exchange x = co_await client.open({method, server.url()});
    const std::string body = co_await read_all(x, 10);
    CHECK(body.empty());
    co_return x.head().status;
  };
  CHECK(run_to_end(io, work("DELETE")) == 204);
  CHECK(run_to_end(io, work("HEAD")) == 200);
}

TEST_CASE("the head of an exchange is that of the last response, not of one before it") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      if (request.starts_with("GET /moved ")) {
        co_await p.send("HTTP/1.1 302 Found\r\nLocation: /here\r\nX-A: moved\r\nContent-Length: 5\r\n\r\nmoved");
      } else if (request.starts_with("GET /early ")) {
        co_await p.send("HTTP/1.1 103 Early Hints\r\nX-A: early\r\n\r\n" + ok("here", "X-A: late\r\n"));
      } else {
        co_await p.send(ok("here", "X-A: last\r\n"));
      }
    }
  }};
  net::io_context io;
  http::client client{io, proxyless};
  http::client staying{io, http::client_options{.max_redirects = 0, .proxy = ""}};
  const auto seen = [&](http::client& c, http::request r) {
    const auto work = [&]() -> net::awaitable<std::string> {
      http::exchange x = co_await c.open(std::move(r));
      std::string text = std::to_string(x.head().status) + " ";
      text.append(x.head().headers.find("X-A").value_or("none")).append(" ");
      text.append(co_await read_all(x, 100));
      co_return text;
    };
    return run_to_end(io, work());
  };
  CHECK(seen(client, {server.url("/moved")}) == "200 last here");
  CHECK(seen(client, {server.url("/early")}) == "200 late here");
  CHECK(seen(staying, {server.url("/moved")}) == "302 moved moved");
}

TEST_CASE("a refused expectation is the answer of an exchange that is not sent again") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    for (;;) {
      std::string head;
      co_await net::async_read_until(p.socket, net::dynamic_buffer(head), "\r\n\r\n", net::use_awaitable);
      co_await p.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
    }
  }};
  net::io_context io;
  http::client client{io, proxyless};
  const auto work = [&]() -> net::awaitable<std::string> {
    auto r = http::request{"POST", server.url("/")}.with_body("x").with_header("Expect", "100-continue");
    http::exchange x = co_await client.open(std::move(r));
    std::string text = std::to_string(x.head().status) + " ";
    text += co_await read_all(x, 100);
    co_return text;
  };
  CHECK(run_to_end(io, work()) == "417 ");
}

TEST_CASE("an exchange begins with its head, before a body comes, with an expectation or without") {
  std::atomic<bool> is_open{false};
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      const bool refuses = request.find(" /refused ") != std::string::npos;
      co_await p.send(std::string{"HTTP/1.1 "} + (refuses ? "417" : "200") + " Said\r\nContent-Length: 4\r\n\r\n");
      while (!is_open) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
      co_await p.send("body");
      is_open = false;
    }
  }};
  net::io_context io;
  http::client client{io, proxyless};
  const auto heard = [&](const char* path, bool expects) -> net::awaitable<std::string> {
    auto r = http::request{"POST", server.url(path)}.with_body("x");
    if (expects) r.with_header("Expect", "100-continue");
    http::exchange x = co_await client.open(std::move(r));
    is_open = true;
    std::string text = std::to_string(x.head().status) + " ";
    text += co_await read_all(x, 100);
    co_return text;
  };
  CHECK(run_to_end(io, heard("/plain", false)) == "200 body");
  CHECK(run_to_end(io, heard("/plain", true)) == "200 body");
  CHECK(run_to_end(io, heard("/refused", false)) == "417 body");
}

TEST_CASE("requests go on beside an exchange that nobody reads, and its own body waits whole") {
  constexpr std::size_t size = 3'000'000;
  scripted_server server{big(size)};
  net::io_context io;
  http::client client{io, proxyless};
  const auto work = [&]() -> net::awaitable<std::string> {
    http::exchange slow = co_await client.open(server.url("/big"));
    for (int i = 0; i < 50; ++i) {
      const http::response r = co_await client.get(server.url("/"));
      CHECK(r.body == "small");
    }
    CHECK(client.stats().running == 1);
    co_return co_await read_all(slow, 10'000);
  };
  CHECK(run_to_end(io, work()) == numbered(size));
  CHECK(server.connections() == 2);
}

TEST_CASE("a request that is sent again spoils no connection of an exchange that nobody reads") {
  constexpr std::size_t size = 3'000'000;
  scripted_server server{[large = ok(numbered(size)), small = ok("small")](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      if (request.starts_with("GET /moved ")) {
        // The connection breaks at the request that follows.
        co_await p.send("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n");
        co_await p.request();
        co_return;
      }
      const std::string& reply = request.starts_with("GET /big ") ? large : small;
      co_await p.send(reply);
    }
  }};
  net::io_context io;
  http::client client{io, proxyless};
  const auto work = [&]() -> net::awaitable<std::string> {
    co_await client.get(server.url());  // leaves the connection that the exchange is to use
    http::exchange slow = co_await client.open(server.url("/big"));
    http::exchange one = co_await client.open(server.url());
    http::exchange other = co_await client.open(server.url());
    co_await read_all(one, 10);
    co_await read_all(other, 10);
    // Of the two idle connections one breaks, and the client spoils the other.
    const http::response again = co_await client.get(server.url("/moved"));
    CHECK(again.resends == 1);
    CHECK(again.body == "small");
    co_return co_await read_all(slow, 10'000);
  };
  CHECK(run_to_end(io, work()) == numbered(size));
  CHECK(server.connections() >= 3);  // newer versions of curl know earlier that the first small exchange is idle
}

TEST_CASE("bytes that came before an error are read first, and then each read has the error") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send(head_of_ten + "0123");
  }};
  net::io_context io;
  http::client client{io, proxyless};
  const auto work = [&]() -> net::awaitable<int> {
    http::exchange x = co_await client.open(server.url());
    std::array<char, 3> room{};
    co_await expect_bytes(x, room, 3);
    co_await expect_bytes(x, room, 1);
    CHECK(room[0] == '3');
    for (int i = 0; i < 2; ++i) co_await expect_error(x, http::error::partial_response);
    co_return 0;
  };
  run_to_end(io, work());
}

TEST_CASE("a request that can't be opened says why") {
  scripted_server server{silence()};
  net::io_context io;
  http::client client{io, proxyless};
  const auto open = [&](http::request r) -> net::awaitable<int> {
    co_return (co_await client.open(std::move(r))).head().status;
  };
  CHECK(error_of(io, open({"ftp://here/"})) == http::error::unsupported_protocol);
  CHECK(error_of(io, open({"A B", server.url()})) == errc::invalid_argument);
  const std::string late = text_of(io, open(http::request{server.url()}.with_timeout(10ms)));
  CHECK(late.find("request.timeout of 10ms passed before a header of the response came") != std::string::npos);
  client.stop();
  CHECK(error_of(io, open({server.url()})) == errc::stopped);
}

TEST_CASE("no time limit counts after the head") {
  scripted_server server{begun("0123")};
  net::io_context io;
  http::client client{io, http::client_options{.timeout = 200ms, .proxy = ""}};
  const auto work = [&]() -> net::awaitable<int> {
    http::exchange x = co_await client.open(server.url());
    net::steady_timer later{io, 300ms};
    co_await later.async_wait(net::use_awaitable);
    std::array<char, 10> room{};
    co_await expect_bytes(x, room, 4);
    co_return 0;
  };
  run_to_end(io, work());
}

TEST_CASE("a bound on a body does not count for an exchange, and a bound on its header fields does") {
  scripted_server server{big(100'000)};
  net::io_context io;
  http::client client{io, http::client_options{.max_body = 10, .proxy = ""}};
  http::client narrow{io, http::client_options{.max_headers = 10, .proxy = ""}};
  const auto size = [&](http::client& c) -> net::awaitable<std::size_t> {
    http::exchange x = co_await c.open(server.url("/big"));
    co_return (co_await read_all(x, 1000)).size();
  };
  CHECK(run_to_end(io, size(client)) == 100'000);
  CHECK(error_of(io, size(narrow)) == errc::too_large);
  // The bound counts again for the request after it, on the same handle.
  CHECK(error_of(io, client.get(server.url("/big"))) == errc::too_large);
}

TEST_CASE("an exchange that goes before its end closes its connection") {
  scripted_server server{begun("0123")};
  net::io_context io;
  http::client client{io, proxyless};
  const auto leave = [&](bool reads) -> net::awaitable<int> {
    http::exchange x = co_await client.open(server.url());
    std::array<char, 2> room{};
    if (reads) co_await expect_bytes(x, room, 2);
    co_return 0;
  };
  for (const bool reads : {false, true}) {
    run_to_end(io, leave(reads));
    while (server.open() != 0) std::this_thread::yield();
    CHECK(client.stats().running == 0);
  }
  const auto replace = [&]() -> net::awaitable<int> {
    http::exchange x = co_await client.open(server.url());
    x = co_await client.open(server.url());
    http::exchange& same = x;
    x = std::move(same);
    while (client.stats().running != 1) co_await net::post(io, net::use_awaitable);
    http::exchange y{std::move(x)};
    CHECK(y.head().status == 200);
    co_return 0;
  };
  run_to_end(io, replace());
  while (server.open() != 0) std::this_thread::yield();
}

TEST_CASE("an exchange can be cancelled at every point, and is over then") {
  net::io_context io;
  http::client client{io, proxyless};
  enum class point { before, opening, reading };
  for (const auto type :
       {net::cancellation_type::terminal, net::cancellation_type::partial, net::cancellation_type::total}) {
    for (const point at : {point::before, point::opening, point::reading}) {
      std::atomic<bool> asked{false};
      scripted_server server{[&](peer& p) -> net::awaitable<void> {
        co_await p.request();
        if (at == point::reading) co_await p.send(head_of_ten);
        asked = true;
        co_await p.linger();
      }};
      std::optional<std::error_code> result;
      std::optional<http::exchange> kept;
      bool is_reading = false;
      net::cancellation_signal signal;
      const auto work = [&]() -> net::awaitable<void> {
        co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
        co_await net::this_coro::throw_if_cancelled(false);
        try {
          kept = co_await client.open(server.url());
          is_reading = true;
          std::array<char, 10> room{};
          co_await kept->read_some(net::buffer(room));
        } catch (const std::system_error& e) {
          result = e.code();
        }
      };
      net::co_spawn(io, work(), net::bind_cancellation_slot(signal.slot(), net::detached));
      io.restart();
      if (at == point::before) io.poll_one();  // the coroutine has begun
      while (at == point::opening ? !asked : at == point::reading && !is_reading) io.poll();
      signal.emit(type);
      CHECK_FALSE(result);
      io.restart();
      io.run();
      CHECK(result == net::error::operation_aborted);
      CHECK(client.stats().waiting + client.stats().running == 0);
      while (server.open() != 0) std::this_thread::yield();
      if (kept) {
        const auto again = [&]() -> net::awaitable<int> {
          co_await expect_error(*kept, net::error::operation_aborted);
          co_return 0;
        };
        run_to_end(io, again());
      }
    }
  }
}

TEST_CASE("stopping the client ends its exchanges, those that are read and those that are not") {
  scripted_server server{begun("0123")};
  net::io_context io;
  for (const bool destroys : {false, true}) {
    auto client = std::make_unique<http::client>(io, proxyless);
    const auto end = [&] { destroys ? client.reset() : client->stop(); };
    const auto work = [&]() -> net::awaitable<int> {
      http::exchange read = co_await client->open(server.url());
      http::exchange unread = co_await client->open(server.url());
      std::array<char, 10> room{};
      co_await expect_bytes(read, room, 4);
      net::post(io, end);
      co_await expect_error(read, errc::stopped);
      co_await expect_error(unread, errc::stopped);
      co_return 0;
    };
    run_to_end(io, work());
    while (server.open() != 0) std::this_thread::yield();
  }
}

TEST_CASE("a context may go with exchanges in every state, and an exchange may outlive both") {
  scripted_server server{begun("0123")};
  std::optional<http::exchange> survivor;
  {
    net::io_context io;
    http::client client{io, proxyless};
    int reading = 0;
    const auto work = [&](bool reads) -> net::awaitable<void> {
      http::exchange x = co_await client.open(server.url());
      std::array<char, 10> room{};
      if (reads) co_await expect_bytes(x, room, 4);
      ++reading;
      if (!reads) survivor = std::move(x);
      if (reads) co_await x.read_some(net::buffer(room));
    };
    net::co_spawn(io, work(true), net::detached);
    net::co_spawn(io, work(false), net::detached);
    while (reading != 2) io.poll();
    net::co_spawn(io, work(true), net::detached);
    while (server.connections() != 3) io.poll();
  }
  CHECK(survivor->head().status == 200);
  survivor.reset();
  while (server.open() != 0) std::this_thread::yield();
}

TEST_CASE("a read needs room") {
  scripted_server server{begun("")};
  net::io_context io;
  http::client client{io, proxyless};
  const auto work = [&]() -> net::awaitable<int> {
    http::exchange x = co_await client.open(server.url());
    co_await x.read_some(net::mutable_buffer{});
    co_return 0;
  };
  CHECK(text_of(io, work()).find("exchange.read_some") != std::string::npos);
}

TEST_CASE("exchanges on several threads: each body is whole, and those that are left are reset") {
  constexpr std::size_t size = 200'000;
  scripted_server server{big(size)};
  net::io_context io;
  http::client client{io, proxyless};
  const std::string expected = numbered(size);
  std::atomic<int> whole{0};
  std::atomic<int> ended{0};
  constexpr int count = 60;
  const auto work = [&](int i) -> net::awaitable<void> {
    http::exchange x = co_await client.open(server.url("/big"));
    if (i % 3 == 0) {
      std::array<char, 1000> room{};
      co_await x.read_some(net::buffer(room));
    } else if (co_await read_all(x, i % 3 == 1 ? 5000 : 50'000) == expected) {
      ++whole;
    }
  };
  for (int i = 0; i < count; ++i) {
    net::co_spawn(net::make_strand(io), work(i), [&](std::exception_ptr e) {
      if (!e) ++ended;
    });
  }
  std::vector<std::thread> loops;
  for (int i = 0; i < 3; ++i) loops.emplace_back([&] { io.run(); });
  for (auto& t : loops) t.join();
  CHECK(ended == count);
  CHECK(whole == count / 3 * 2);
  CHECK(client.stats().running == 0);
}
