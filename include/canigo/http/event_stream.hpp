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
  std::string type;  ///< "message" if the server names none
  std::string data;  ///< its lines, with a line feed between two
  std::string id;    ///< the last one that the server has sent, with this event or before
};

/// The events in a text that comes in parts.
///
/// Source: WHATWG HTML, 9.2.6. Bytes that are not UTF-8 are passed on.
class event_parser {
 public:
  /// `max_event`: most bytes of an event, and of a line.
  explicit event_parser(std::size_t max_event) noexcept : max_event_{max_event} {}

  /// Takes the next part, and appends the events that end in it. False: an event is too large. After that, or after an
  /// exception, the parser can't be used any more. Throws std::bad_alloc.
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
  std::string data_;  // each line with its end
  std::string id_;
  std::string last_id_;
  std::optional<duration> retry_;
  bool is_first_line_ = true;
  bool was_return_ = false;  // the last byte was a return; a line feed behind it belongs to it
};

/// The events that a server sends in the body of a response, one after the other.
///
///     http::request r{url};
///     r.with_header("Accept", "text/event-stream").with_header("Last-Event-ID", last_id);
///     http::event_stream events{co_await client.open(std::move(r))};
///     while (auto event = co_await events.next()) use(*event);
///
/// The head of the exchange tells whether it is such a stream: status 200, and Content-Type text/event-stream. After
/// its end the caller connects again: with last_event_id(), after retry(), and not after a status of 204.
///
/// No time limit counts; put one around next() if the server may fall silent. The server waits while the caller does
/// not read.
///
/// Threads: one at a time, any.
class event_stream {
 public:
  /// `max_event`: most bytes of an event, and of a line, at least 1; more is errc::too_large.
  explicit event_stream(exchange x, std::size_t max_event = std::size_t{1} << 20);

  /// Waits for the next event. Nothing: the server has ended the stream; an event that it left unfinished is dropped.
  ///
  /// Only one at a time.
  /// Errors: those of exchange::read_some(); errc::too_large. Each later call has the same error.
  /// Cancellation: terminal, partial, total. It resets the exchange.
  /// Allocates: the event, and the coroutine's frame.
  net::awaitable<std::optional<server_event>> next();

  /// The id to send as Last-Event-ID when connecting again; empty: none.
  const std::string& last_event_id() const noexcept { return parser_.last_event_id(); }
  /// How long the server asks to wait before connecting again; nothing: it has not said.
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
