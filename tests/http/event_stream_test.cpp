#include "canigo/http/event_stream.hpp"

#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

using namespace http_test;
using namespace std::chrono_literals;
using namespace std::string_literals;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

/// Each event as "type|data|id;", whatever the size of the parts.
std::string events_in(std::string_view text, std::size_t part, http::event_parser& parser) {
  std::deque<http::server_event> events;
  for (; !text.empty(); text.remove_prefix(std::min(part, text.size())))
    CHECK(parser.take(text.substr(0, part), events));
  std::string all;
  for (const auto& e : events) all.append(e.type).append("|").append(e.data).append("|").append(e.id).append(";");
  return all;
}

void expect_events(const std::string& text, const std::string& expected) {
  CAPTURE(text);
  for (const auto part : std::initializer_list<std::size_t>{1, 2, 3, 1000}) {
    http::event_parser parser{1000};
    CHECK(events_in(text, part, parser) == expected);
  }
}

}  // namespace

TEST_CASE("http: events are what the standard's examples say") {
  expect_events("data: YHOO\ndata: +2\ndata: 10\n\n", "message|YHOO\n+2\n10|;");
  expect_events(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
                "message|first event|1;message|second event|;message| third event|;");
  expect_events("data\n\ndata\ndata\n\ndata:", "message||;message|\n|;");
  expect_events("data:test\n\ndata: test\n\n", "message|test|;message|test|;");
}

TEST_CASE("http: an event ends its lines in any of three ways, and has fields in any order") {
  expect_events("data: a\r\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n", "message|a\nb|;message|c|;message|d|;");
  expect_events("event: add\r\ndata: 1\r\n\r\n", "add|1|;");
  expect_events("data: 1\nevent: add\nid: 7\n\ndata: 2\n\n", "add|1|7;message|2|7;");
  expect_events("event: lost\n\ndata: 1\n\n", "message|1|;");
  expect_events("Data: no\nother: no\n:data: no\ndata: a:b\n\n", "message|a:b|;");
  expect_events("id: a\0b\nid: 3\ndata: x\n\nid: c\0d\ndata: y\n\n"s, "message|x|3;message|y|3;");
}

TEST_CASE("http: a mark of UTF-8 counts at the begin of a stream only") {
  expect_events(
      "\xef\xbb\xbf"
      "data: 1\n\n\xef\xbb\xbf"
      "data: 2\n\n",
      "message|1|;");
  expect_events("\xef\xbb\xbf\ndata: 1\n\n", "message|1|;");
}

TEST_CASE("http: an unfinished event is none, and its id is not yet the last") {
  http::event_parser parser{1000};
  CHECK(events_in("id: 1\n\nid: 2\ndata: x\n", 5, parser).empty());
  CHECK(parser.last_event_id() == "1");
  CHECK(events_in("\n", 1, parser) == "message|x|2;");
  CHECK(parser.last_event_id() == "2");
}

TEST_CASE("http: a server's wait before connecting again is in milliseconds, and digits alone") {
  http::event_parser parser{1000};
  CHECK_FALSE(parser.retry());
  events_in("retry: 1500\n", 4, parser);
  CHECK(parser.retry() == 1500ms);
  for (const char* bad : {"retry: 1s\n", "retry: -1\n", "retry:\n", "retry: 1.5\n"}) events_in(bad, 4, parser);
  CHECK(parser.retry() == 1500ms);
  events_in("retry: 99999999999999999999\n", 4, parser);
  CHECK(parser.retry() == std::chrono::hours{24 * 365});
}

TEST_CASE("http: a line and an event have a bound") {
  std::deque<http::server_event> events;
  http::event_parser exact{10};
  CHECK(exact.take("data: 1234\n\n", events));
  CHECK_FALSE(exact.take("data: 12345", events));
  http::event_parser lines{20};
  CHECK(lines.take("data: 1234\ndata: 1234\n", events));
  CHECK_FALSE(lines.take("data: 12345678\n", events));
  http::event_parser comment{10};
  CHECK_FALSE(comment.take(":" + std::string(10, 'x'), events));
  CHECK(events.size() == 1);
}

TEST_CASE("events come as the server sends them, up to its end") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    const std::string request = co_await p.request();
    CHECK(request.find("Last-Event-ID: 4\r\n") != std::string::npos);
    co_await p.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nretry: 10\nid: 5\nda");
    co_await p.send("ta: a\n\ndata: b\nid: 6\n\ndata: left");
  }};
  net::io_context io;
  http::client client{io, {.proxy = ""}};
  const auto work = [&](std::size_t most) -> net::awaitable<std::string> {
    http::exchange x = co_await client.open(http::request{server.url()}.with_header("Last-Event-ID", "4"));
    http::event_stream events{std::move(x), most};
    CHECK(events.head().status == 200);
    std::string all;
    for (;;) {
      const std::optional<http::server_event> e = co_await events.next();
      if (!e) break;
      all.append(e->data).append(e->id).append(" ");
    }
    CHECK(events.last_event_id() == "6");
    CHECK(events.retry() == 10ms);
    co_return all;
  };
  CHECK(run_to_end(io, work(100)) == "a5 b6 ");
  CHECK(error_of(io, work(8)) == canigo::errc::too_large);
  CHECK(text_of(io, work(0)).starts_with("event_stream max_event is 0; allowed: 1 or more"));
}
