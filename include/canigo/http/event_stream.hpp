#pragma once

#include "canigo/http/exchange.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::http {

/// One event of a text/event-stream.
struct server_event {
  std::string type;  ///< the type of the event; "message" if the server sent none
  std::string data;  ///< the data lines of the event, joined by line feeds
  std::string id;    ///< the last id that the server has sent, with this event or an earlier one
};

/// Parses a text/event-stream that arrives in parts.
///
/// Source: WHATWG HTML, 9.2.6. Bytes that are not valid UTF-8 are passed on unchanged.
class event_parser {
 public:
  /// `max_event` is the max size in bytes of an event, and of a line.
  explicit event_parser(std::size_t max_event) noexcept : max_event_{max_event} {}

  /// Parses the next part, and appends the events that end in it. Returns false if an event is too large. After that,
  /// or after an exception, the parser is unusable. Throws std::bad_alloc.
  bool take(std::string_view part, std::deque<server_event>& events);

  const std::string& last_event_id() const noexcept { return last_id_; }
  std::optional<duration> retry() const noexcept { return retry_; }

 private:
  bool take_byte(char c, std::deque<server_event>& events);
  void end_line(std::deque<server_event>& events);
  void dispatch(std::deque<server_event>& events);

  std::size_t max_event_;
  std::string line_;
  std::string type_;
  std::string data_;  // the data lines so far, each with a line feed at its end
  std::string id_;
  std::string last_id_;
  std::optional<duration> retry_;
  bool is_first_line_ = true;
  bool was_return_ = false;  // whether the last byte was a carriage return; a line feed after it is skipped
};

/// Reads the events that a server sends in the body of a response, one after the other.
///
///     http::request r{url};
///     r.with_header("Accept", "text/event-stream").with_header("Last-Event-ID", last_id);
///     http::event_stream events{co_await client.open(std::move(r))};
///     while (auto event = co_await events.next()) use(*event);
///
/// head() tells whether the response is an event stream: status 200, and Content-Type text/event-stream. After the end
/// of the stream, the caller may connect again with last_event_id(), after a delay of retry(), but not after status
/// 204.
///
/// There is no time limit; put one around next() if the server may stop sending. While the caller does not read, the
/// server has to wait.
///
/// Threads: one thread at a time.
class event_stream {
 public:
  /// `max_event` is the max size in bytes of an event, and of a line, at least 1. A larger event ends with
  /// errc::too_large.
  explicit event_stream(exchange x, std::size_t max_event = std::size_t{1} << 20);

  /// Waits for the next event. Returns std::nullopt at the end of the stream; an incomplete last event is dropped.
  ///
  /// Only one call at a time is allowed.
  /// Errors: those of exchange::read_some(); errc::too_large. All later calls fail with the same error.
  /// Cancellation: terminal, partial, total. It resets the exchange.
  /// Allocates: the event, and the coroutine's frame.
  net::awaitable<std::optional<server_event>> next();

  /// The value for the header field Last-Event-ID when connecting again; empty: none.
  const std::string& last_event_id() const noexcept { return parser_.last_event_id(); }
  /// The delay that the server requests before connecting again; std::nullopt if it requested none.
  std::optional<duration> retry() const noexcept { return parser_.retry(); }
  const response& head() const noexcept { return exchange_.head(); }

 private:
  http::exchange exchange_;
  event_parser parser_;
  std::vector<char> room_;
  std::deque<server_event> events_;
  bool is_too_large_ = false;
};

}  // namespace canigo::http
