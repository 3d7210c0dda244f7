#include "canigo/http/upload.hpp"

#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/net.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/buffer.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
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

const http::client_options alone{.proxy = ""};

std::string letters(std::size_t size) {
  std::string text(size, 'x');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i * 7 / 3 % 26);
  return text;
}

/// Writes a text in parts of this size at most. False: the server wants no more.
net::awaitable<bool> write_all(http::upload& u, std::string_view text, std::size_t part) {
  while (!text.empty()) {
    const std::string_view next = text.substr(0, part);
    const bool is_taken = co_await u.write(net::buffer(next.data(), next.size()));
    if (!is_taken) co_return false;
    text.remove_prefix(next.size());
  }
  co_return true;
}

net::awaitable<std::string> body_of(http::exchange x) {
  std::string all;
  char room[4096];
  while (const std::size_t n = co_await x.read_some(net::buffer(room))) all.append(room, n);
  co_return all;
}

/// One write ends with this error.
net::awaitable<void> expect_write_error(http::upload& u, std::error_code expected) {
  std::error_code ec;
  try {
    co_await u.write(net::buffer("abc", 3));
  } catch (const std::system_error& e) {
    ec = e.code();
  }
  CHECK(ec == expected);
}

/// The request with its body, and without the framing of chunks, as the answer.
scripted_server::script echo_body() {
  return [](peer& p) -> net::awaitable<void> {
    for (;;) {
      std::string request = co_await p.request();
      if (request.find("Transfer-Encoding: chunked") != std::string::npos) {
        for (;;) {
          const std::string line = co_await p.up_to("\r\n");
          const std::size_t size = std::stoul(line, nullptr, 16);
          std::string chunk;
          while (chunk.size() < size + 2) chunk += co_await p.up_to("\r\n");
          CHECK(chunk.size() == size + 2);
          if (size == 0) break;
          request += chunk.substr(0, size);
        }
      }
      const std::string reply = ok(request);
      co_await p.send(reply);
    }
  };
}

}  // namespace

TEST_CASE("an upload of known length arrives whole, whatever the size of the writes") {
  scripted_server server{echo_body()};
  net::io_context io;
  http::client client{io, alone};
  for (const auto size : std::initializer_list<std::size_t>{0, 1, 65'536, 300'000}) {
    const std::string text = letters(size);
    for (const auto part : std::initializer_list<std::size_t>{size / 7 + 1, 16'384, 1'000'000}) {
      for (const char* method : {"PUT", "POST", "PATCH"}) {
        const auto work = [&]() -> net::awaitable<std::string> {
          http::upload u = client.start_upload({method, server.url("/up")}, text.size());
          const bool is_taken = co_await write_all(u, text, part);
          CHECK(is_taken);
          http::exchange x = co_await u.finish();
          CHECK(x.head().status == 200);
          co_return co_await body_of(std::move(x));
        };
        const std::string seen = run_to_end(io, work());
        CHECK(seen.starts_with(std::string{method} + " /up HTTP/1.1\r\n"));
        CHECK(seen.find("\r\nContent-Length: " + std::to_string(size) + "\r\n") != std::string::npos);
        for (const char* name : {"Expect", "Content-Type", "Transfer-Encoding"})
          CHECK(seen.find(name) == std::string::npos);
        CHECK(seen.ends_with("\r\n\r\n" + text));
      }
    }
  }
  // The handle is as before.
  CHECK(run_to_end(io, client.get(server.url())).body.starts_with("GET / HTTP/1.1\r\n"));
  const http::response r = run_to_end(io, client.send(http::request{"POST", server.url()}.with_body("abc")));
  CHECK(r.body.ends_with("\r\n\r\nabc"));
  CHECK(server.connections() == 1);
}

TEST_CASE("an upload of unknown length goes out in chunks") {
  scripted_server server{echo_body()};
  net::io_context io;
  http::client client{io, alone};
  for (const auto size : std::initializer_list<std::size_t>{0, 1, 200'000}) {
    const std::string text = letters(size);
    const auto work = [&]() -> net::awaitable<std::string> {
      http::upload u = client.start_upload(http::request{"POST", server.url()}.with_header("X-A", "b"));
      co_await write_all(u, text, 5'000);
      http::exchange x = co_await u.finish();
      co_return co_await body_of(std::move(x));
    };
    const std::string seen = run_to_end(io, work());
    CHECK(seen.find("\r\nTransfer-Encoding: chunked\r\n") != std::string::npos);
    CHECK(seen.find("\r\nX-A: b\r\n") != std::string::npos);
    CHECK(seen.find("Content-Length") == std::string::npos);
    CHECK(seen.ends_with("\r\n\r\n" + text));
  }
  CHECK(server.connections() == 1);
}

TEST_CASE("an upload waits for its server, and the other requests go on") {
  constexpr std::size_t size = 64 << 20;
  std::atomic<bool> is_open{false};
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string head = co_await p.up_to("\r\n\r\n");
      if (head.starts_with("PUT")) break;
      co_await p.send(ok("small"));
    }
    while (!is_open) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
    const std::string body = co_await p.up_to("!");
    co_await p.send(ok(std::to_string(body.size())));
  }};
  net::io_context io;
  http::client client{io, alone};
  std::size_t written = 0;
  const auto upload = [&]() -> net::awaitable<std::string> {
    http::upload u = client.start_upload({"PUT", server.url()}, size);
    const std::string part(1 << 20, 'x');
    while (written < size - part.size()) written += co_await u.write_some(net::buffer(part));
    std::string rest(size - written, 'x');
    rest.back() = '!';
    co_await write_all(u, rest, rest.size());
    http::exchange x = co_await u.finish();
    co_return co_await body_of(std::move(x));
  };
  std::string answer;
  net::co_spawn(io, upload(), [&](std::exception_ptr e, std::string text) {
    CHECK_FALSE(e);
    answer = std::move(text);
  });
  for (std::size_t before = 1; before != written;) {
    before = written;
    const auto other = [&]() -> net::awaitable<void> {
      for (int i = 0; i < 50; ++i) {
        const http::response r = co_await client.get(server.url());
        CHECK(r.body == "small");
      }
    };
    bool ended = false;
    net::co_spawn(io, other(), [&](std::exception_ptr e) { ended = !e; });
    while (!ended) io.run_one();
  }
  CHECK(written > 0);
  CHECK(written < size / 2);  // the sockets have it, and 64 KiB the client
  is_open = true;
  io.run();
  CHECK(answer == std::to_string(size));
}

TEST_CASE("a server that answers before the body ends is heard, and gets no more") {
  const int status = GENERATE(300, 413);
  for (const bool is_known : {true, false}) {
    scripted_server server{[&](peer& p) -> net::awaitable<void> {
      co_await p.up_to("\r\n\r\n");
      co_await p.send("HTTP/1.1 " + std::to_string(status) + " Too Large\r\nContent-Length: 6\r\n\r\ntoo mu");
      co_await p.linger();
    }};
    net::io_context io;
    http::client client{io, alone};
    const auto work = [&]() -> net::awaitable<std::string> {
      const std::string part = letters(100'000);
      constexpr std::uint64_t length = std::uint64_t{1} << 40;
      http::upload u = client.start_upload({"POST", server.url()}, is_known ? std::optional{length} : std::nullopt);
      while (co_await u.write(net::buffer(part))) {
      }
      const std::size_t more = co_await u.write_some(net::buffer(part));
      CHECK(more == 0);
      http::exchange x = co_await u.finish();
      CHECK(x.head().status == status);
      co_return co_await body_of(std::move(x));
    };
    CHECK(run_to_end(io, work()) == "too mu");
    while (server.open() != 0) std::this_thread::yield();  // the connection is not kept
  }
}

TEST_CASE("an answer that comes during the writes is read after them") {
  const std::string answer = letters(200'000);
  scripted_server server{[&answer](peer& p) -> net::awaitable<void> {
    co_await p.up_to("\r\n\r\n");
    // In small parts, so that some come between the writes.
    co_await p.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(answer.size()) + "\r\n\r\n");
    for (std::size_t at = 0; at < answer.size(); at += 1000) co_await p.send(answer.substr(at, 1000));
    co_await p.linger();
  }};
  for (const bool decodes : {false, true}) {
    for (const std::size_t part : {1u, 20'000u, 300'000u}) {
      CAPTURE(decodes, part);
      net::io_context io;
      http::client client{io, {.decode_body = decodes, .proxy = ""}};
      const auto work = [&]() -> net::awaitable<std::string> {
        const std::string text = letters(part == 1 ? 2000 : 3'000'000);
        http::upload u = client.start_upload({"PUT", server.url()}, text.size());
        const bool is_written = co_await write_all(u, text, part);
        CHECK(is_written);
        co_return co_await body_of(co_await u.finish());
      };
      CHECK(run_to_end(io, work()) == answer);
    }
  }
}

TEST_CASE("an upload ends if its server answers in full and closes") {
  const std::string answer = letters(20'000);
  scripted_server server{[&answer](peer& p) -> net::awaitable<void> {
    co_await p.up_to("\r\n\r\n");
    co_await p.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 20000\r\n\r\n" + answer);
    co_await p.linger();
  }};
  for (const bool decodes : {false, true}) {
    CAPTURE(decodes);
    net::io_context io;
    http::client client{io, {.decode_body = decodes, .proxy = ""}};
    const auto work = [&]() -> net::awaitable<std::string> {
      const std::string text = letters(3'000'000);
      http::upload u = client.start_upload({"PUT", server.url()}, text.size());
      co_await write_all(u, text, 2'000);  // it ends, whether the server gets all or not
      co_return co_await body_of(co_await u.finish());
    };
    CHECK(run_to_end(io, work()) == answer);
  }
}

TEST_CASE("answers that come during the writes of several threads are read after them") {
  const std::string answer = letters(20'000);
  scripted_server server{[&answer](peer& p) -> net::awaitable<void> {
    co_await p.up_to("\r\n\r\n");
    co_await p.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 20000\r\n\r\n");
    for (std::size_t at = 0; at < answer.size(); at += 100) co_await p.send(answer.substr(at, 100));
    co_await p.linger();
  }};
  net::io_context io;
  http::client client{io, {.connections = 8, .proxy = ""}};
  const std::string text = letters(100'000);
  std::atomic<int> whole{0};
  constexpr int callers = 20, uploads = 5;
  const auto work = [&]() -> net::awaitable<void> {
    for (int i = 0; i < uploads; ++i) {
      http::upload u = client.start_upload({"PUT", server.url()}, text.size());
      co_await write_all(u, text, 2'000);
      const std::string seen = co_await body_of(co_await u.finish());
      if (seen == answer) ++whole;
    }
  };
  for (int i = 0; i < callers; ++i) net::co_spawn(net::make_strand(io), work(), net::detached);
  std::vector<std::thread> loops;
  for (int i = 0; i < 4; ++i) loops.emplace_back([&] { io.run(); });
  for (auto& t : loops) t.join();
  CHECK(whole == callers * uploads);
}

TEST_CASE("a redirect of an upload is its answer") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    const std::string request = co_await p.request();
    CHECK(request.ends_with("abc"));
    co_await p.send("HTTP/1.1 307 Moved\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n");
    co_await p.linger();
  }};
  net::io_context io;
  http::client client{io, alone};
  const auto work = [&]() -> net::awaitable<int> {
    http::upload u = client.start_upload({"POST", server.url()}, 3);
    co_await u.write(net::buffer("abc", 3));
    http::exchange x = co_await u.finish();
    CHECK(x.head().headers.find("Location") == std::string_view{"/there"});
    co_return x.head().status;
  };
  CHECK(run_to_end(io, work()) == 307);
}

TEST_CASE("an upload is sent once, even by PUT over a connection that breaks") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send(ok("x"));
    co_await p.up_to("\r\n\r\n");
  }};
  net::io_context io;
  http::client client{io, alone};
  const auto work = [&]() -> net::awaitable<int> {
    co_await client.get(server.url());
    http::upload u = client.start_upload({"PUT", server.url()}, 3);
    co_await u.write(net::buffer("abc", 3));
    co_return (co_await u.finish()).head().status;
  };
  const std::error_code ec = error_of(io, work());
  CHECK((ec == http::error::no_response || ec == http::error::receive_failed || ec == http::error::send_failed));
  CHECK(server.connections() == 1);
  io.restart();
  CHECK(run_to_end(io, client.get(server.url())).status == 200);
}

TEST_CASE("an upload goes over a new connection if the server has closed the idle one") {
  std::atomic<int> number{0};
  scripted_server server{[&number](peer& p) -> net::awaitable<void> {
    if (++number == 1) {
      co_await p.request();
      co_await p.send(ok("x"));
      co_return;
    }
    const std::string request = co_await p.request();
    CHECK(request.ends_with("abc"));
    co_await p.send(ok("y"));
    co_await p.linger();
  }};
  net::io_context io;
  http::client client{io, alone};
  const auto work = [&]() -> net::awaitable<int> {
    co_await client.get(server.url());
    while (server.open() != 0) std::this_thread::yield();
    http::upload u = client.start_upload({"PUT", server.url()}, 3);
    co_await u.write(net::buffer("abc", 3));
    co_return (co_await u.finish()).head().status;
  };
  CHECK(run_to_end(io, work()) == 200);
  CHECK(server.connections() == 2);
}

TEST_CASE("a server that goes midway ends an upload, and each later step") {
  scripted_server server{[](peer& p) -> net::awaitable<void> { co_await p.up_to("\r\n\r\n"); }};
  net::io_context io;
  http::client client{io, alone};
  const auto work = [&]() -> net::awaitable<int> {
    http::upload u = client.start_upload({"PUT", server.url()});
    const std::string part = letters(100'000);
    std::error_code first;
    try {
      while (co_await u.write(net::buffer(part))) {
      }
    } catch (const std::system_error& e) {
      first = e.code();
    }
    CHECK(first.category() == http::error_category());
    co_await expect_write_error(u, first);
    std::error_code last;
    try {
      co_await u.finish();
    } catch (const std::system_error& e) {
      last = e.code();
    }
    CHECK(last == first);
    co_return 0;
  };
  run_to_end(io, work());
  const auto unknown = [&]() -> net::awaitable<int> {
    http::upload u = client.start_upload({"PUT", "http://127.0.0.1:1/"}, 3);
    co_await expect_write_error(u, http::error::could_not_connect);
    co_return 0;
  };
  run_to_end(io, unknown());
}

TEST_CASE("what can't be uploaded is refused by name, and nothing happens") {
  scripted_server server{echo_body()};
  net::io_context io;
  http::client client{io, alone};
  const auto words = [&](http::request r, std::optional<std::uint64_t> length) -> std::string {
    try {
      const http::upload u = client.start_upload(std::move(r), length);
      return "accepted";
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::invalid_argument);
      return e.what();
    }
  };
  CHECK(words({"GET", server.url()}, {}).starts_with("request.method is GET; allowed: a method with a body"));
  CHECK(words({"HEAD", server.url()}, {}).starts_with("request.method is HEAD"));
  CHECK(words({"A B", server.url()}, {}).starts_with("request.method is A B"));
  CHECK(words(http::request{"PUT", server.url()}.with_body("abc"), {})
            .starts_with("request.body is 3 bytes; allowed: none with an upload"));
  CHECK(words({"PUT", server.url()}, std::uint64_t{1} << 63)
            .starts_with("client.start_upload length is 9223372036854775808"));
  CHECK(words({"PUT", server.url()}, {}) == "accepted");
  const auto work = [&]() -> net::awaitable<std::string> {
    http::upload u = client.start_upload({"PUT", server.url()}, 5);
    CHECK_THROWS_AS(u.write_some(net::const_buffer{}), std::system_error);
    co_await u.write(net::buffer("abc", 3));
    CHECK_THROWS_AS(u.write_some(net::buffer("def", 3)), std::system_error);
    CHECK_THROWS_AS(u.finish(), std::system_error);
    co_await u.write(net::buffer("de", 2));
    http::exchange x = co_await u.finish();
    co_return co_await body_of(std::move(x));
  };
  CHECK(run_to_end(io, work()).ends_with("\r\n\r\nabcde"));
}

TEST_CASE("the time of an upload is that of the server, and not of its caller") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    const std::string request = co_await p.request();
    if (!request.ends_with("quiet")) co_await p.send(ok("x"));
    co_await p.linger();
  }};
  net::io_context io;
  http::client client{io, alone};
  const auto work = [&](std::string text) -> net::awaitable<int> {
    http::upload u = client.start_upload(http::request{"PUT", server.url()}.with_timeout(400ms), text.size() + 1);
    co_await u.write(net::buffer("-", 1));
    net::steady_timer later{io, 500ms};
    co_await later.async_wait(net::use_awaitable);
    co_await u.write(net::buffer(text));
    co_return (co_await u.finish()).head().status;
  };
  CHECK(run_to_end(io, work("heard")) == 200);
  CHECK(text_of(io, work("quiet")).find("request.timeout of 400ms passed") != std::string::npos);
}

TEST_CASE("an upload that goes, is cancelled or stopped is reset at every point") {
  enum class point { unsent, writing, waiting };
  enum class end { goes, is_cancelled, is_stopped };
  for (const end how : {end::goes, end::is_cancelled, end::is_stopped}) {
    for (const point at : {point::unsent, point::writing, point::waiting}) {
      scripted_server server{[](peer& p) -> net::awaitable<void> {
        co_await p.up_to("\r\n\r\n");
        co_await p.up_to("abc");
        co_await p.linger();
      }};
      net::io_context io;
      http::client client{io, alone};
      std::optional<std::error_code> result;
      bool is_there = false;
      net::cancellation_signal signal;
      const std::string part = letters(1 << 20);
      const auto work = [&]() -> net::awaitable<void> {
        co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
        try {
          http::upload u = client.start_upload({"PUT", server.url()});
          if (at != point::unsent) co_await u.write(net::buffer("abc", 3));
          is_there = true;
          if (how == end::goes) {
            result.emplace();
            co_return;
          }
          if (at == point::waiting) co_await u.finish();
          while (co_await u.write(net::buffer(part))) {
          }
        } catch (const std::system_error& e) {
          result = e.code();
        }
      };
      net::co_spawn(io, work(), net::bind_cancellation_slot(signal.slot(), net::detached));
      while (!is_there) io.run_one();
      for (int i = 0; i < 20; ++i) io.poll_one();
      if (how == end::is_cancelled) signal.emit(net::cancellation_type::total);
      if (how == end::is_stopped) client.stop();
      io.restart();
      io.run();
      const std::error_code expected = how == end::goes           ? std::error_code{}
                                       : how == end::is_cancelled ? net::error::operation_aborted
                                                                  : make_error_code(errc::stopped);
      CHECK(result == expected);
      CHECK(client.stats().running == 0);
      while (server.open() != 0) std::this_thread::yield();
    }
  }
}

TEST_CASE("uploads on several threads arrive whole") {
  scripted_server server{echo_body()};
  net::io_context io;
  http::client client{io, alone};
  const std::string text = letters(150'000);
  std::atomic<int> whole{0};
  constexpr int count = 30;
  const auto work = [&](int i) -> net::awaitable<void> {
    const auto length = i % 2 == 0 ? std::optional<std::uint64_t>{text.size()} : std::nullopt;
    http::upload u = client.start_upload({"PUT", server.url()}, length);
    if (i % 5 == 0) {
      co_await u.write(net::buffer(text.data(), 1000));
      co_return;
    }
    co_await write_all(u, text, 10'000);
    http::exchange x = co_await u.finish();
    const std::string seen = co_await body_of(std::move(x));
    if (seen.ends_with("\r\n\r\n" + text)) ++whole;
  };
  for (int i = 0; i < count; ++i) net::co_spawn(net::make_strand(io), work(i), net::detached);
  std::vector<std::thread> loops;
  for (int i = 0; i < 3; ++i) loops.emplace_back([&] { io.run(); });
  for (auto& t : loops) t.join();
  CHECK(whole == count / 5 * 4);
  CHECK(client.stats().running == 0);
}
