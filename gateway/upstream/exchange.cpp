#include "gateway/upstream/exchange.hpp"

#include "gateway/policy/event_stream.hpp"
#include "gateway/policy/fields.hpp"
#include "gateway/policy/refusal_body.hpp"
#include "gateway/upstream/tunnel.hpp"
#include "gateway/upstream/upload.hpp"
#include "gateway/wire/chunk_line.hpp"
#include "gateway/wire/message_parser.hpp"

#include <asio/this_coro.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t piece_size = 64 << 10;
// the size of the first read of a response, in bytes; most responses are smaller
constexpr std::size_t first_read = 8 << 10;
constexpr parser_limits response_limits{
    .head = piece_size - 1, .body = std::numeric_limits<std::uint64_t>::max(), .fields = 1000};

bool is_one_chunked(const message_head& head) {
  // Any transfer coding other than `chunked` is refused, because Beast would take all bytes up to the end of the stream
  // as the body.
  return std::ranges::none_of(head.fields, [](const field& f) {
    return same_text(f.name, "Transfer-Encoding") && !same_text(trim(f.value), "chunked");
  });
}

constexpr int switching = 101;

/// Whether a 101 response opens the websocket that the request asked for.
bool opens_websocket(const exchange& x, const message_head& head) {
  const auto protocol = value_of(head, "Upgrade");
  return x.upgraded != nullptr && protocol && same_text(trim(*protocol), "websocket");
}

enum class head_end : std::uint8_t { there, lost, late, bad };

/// Reads interim responses and the head of the final response. The time limit `timeout.first_byte` starts when the
/// upstream has the whole request body. Until then only the time limits of the body apply.
net::awaitable<head_end> read_head(exchange& x, link& l, message_parser& parser, const upload& u) {
  constexpr int most_interim = 100;
  const time_point start = clock::now();
  const auto left = [&] {
    const time_point now = clock::now();
    return x.left_of(x.up->timeout.first_byte, u.is_on() ? now : std::max(start, u.over_at()), now);
  };
  for (int interim = 0;;) {
    while (!l.input.empty()) {
      const auto step = parser.read(l.input);
      if (parser.failure() != parse_failure::none) co_return head_end::bad;
      if (step.wants_more) break;
      if (!parser.has_head()) continue;
      const int status = parser.head().status;
      const bool is_opened = status == switching && opens_websocket(x, parser.head());
      if (status < 100 || (status == switching && !is_opened) || !is_one_chunked(parser.head()))
        co_return head_end::bad;
      if (status >= 200 || is_opened) co_return head_end::there;
      // An upstream may send interim responses endlessly, so their number is bounded.
      if (++interim > most_interim) co_return head_end::bad;
      if (left() == duration{1}) co_return head_end::late;
      parser = message_parser::of_response(response_limits, x.is_to_head);
    }
    const std::size_t wanted = std::max(first_read, 2 * l.input.size());
    const net::mutable_buffer room = l.input.prepare(std::min(wanted, piece_size));
    if (room.size() == 0) co_return head_end::bad;
    error_code error;
    l.input.commit(co_await l.stream->read_some(room, left(), error));
    if (x.is_aborted) co_return head_end::lost;
    // The time limit is extended while the request's body is still being sent. If the extended limit has not passed,
    // the read continues.
    if (error == errc::timed_out && left() > duration{1}) continue;
    if (error) co_return error == errc::timed_out ? head_end::late : head_end::lost;
    if (!x.first_byte) x.first_byte = clock::now();
  }
}

/// Whether the body of this response may report limits. If so, the body is read before see_head() and drops() of
/// `x.sink` evaluate the response.
bool tells_in_body(const exchange& x, const message_parser& parser) {
  constexpr int forbidden = 403, too_many_requests = 429;
  const int status = parser.head().status;
  const bool is_refusal = status == too_many_requests || status == forbidden;
  if (!is_refusal || !parser.has_body() || !x.up->reads_refusals()) return false;
  return parser.length().value_or(0) <= most_refusal_body && !value_of(parser.head(), "Content-Encoding");
}

/// Reads the body of a response up to a max time and size. Returns false if the connection breaks before the end of the
/// body.
net::awaitable<bool> read_ahead(const exchange& x, link& l, message_parser& parser, std::string& body) {
  constexpr duration most_time = std::chrono::seconds{2};
  const time_point end = std::min(saturating_add(clock::now(), most_time), x.until);
  while (!parser.is_done() && parser.failure() == parse_failure::none && body.size() < most_refusal_body) {
    if (!l.input.empty()) {
      const auto step = parser.read(l.input);
      body.append(step.piece.data(), step.piece.size());
      if (!step.wants_more) continue;
    }
    const net::mutable_buffer room = l.input.prepare(std::max(first_read, 2 * l.input.size()));
    const time_point now = clock::now();
    if (room.size() == 0 || now >= end) break;
    error_code error;
    l.input.commit(co_await l.stream->read_some(room, end - now, error));
    if (error == net::error::eof && parser.ends_with_stream()) {
      parser.end();
    } else if (error && error != errc::timed_out) {
      co_return false;
    }
    if (error || x.is_aborted) break;
  }
  co_return true;
}

/// Handles a response that is no event stream although the client has already got the head of an event stream. Keeps
/// the body of the response, as far as it was read, for an error event.
net::awaitable<attempt_end> keep_failed(exchange& x, link& l, message_parser& parser, std::string& body, bool is_open) {
  x.status = parser.head().status;
  x.failure = "its status is " + std::to_string(x.status);
  x.sink->head_for_client(parser.head());
  if (is_open) {
    auto reading = read_ahead(x, l, parser, body);
    co_await std::move(reading);
  }
  x.sink->see_piece(body);
  // The last piece may have made the body longer than the limit. Such a body is not kept.
  if (body.size() <= most_refusal_body) x.failed = std::move(body);
  co_return x.is_aborted ? attempt_end::client_lost : attempt_end::no_events;
}

/// The framing of a response's body for the client.
struct framing {
  bool is_chunked = false;
  std::string fields;
};

framing frame(exchange& x, const message_parser& parser, bool sends_rest) {
  framing f;
  // If the rest of the request's body may stay unread, the client's connection can't serve another request.
  if (x.body != nullptr && !x.body->is_read() && !sends_rest) x.keeps_client = false;
  if (x.follows_events || (parser.has_body() && !parser.length())) {
    f.is_chunked = x.client_version >= 11;
    if (!f.is_chunked) x.keeps_client = false;
  }
  if (parser.length() && x.status != 204) f.fields = "Content-Length: " + std::to_string(*parser.length()) + "\r\n";
  if (f.is_chunked) f.fields = "Transfer-Encoding: chunked\r\n";
  if (!x.keeps_client) {
    f.fields += "Connection: close\r\n";
  } else if (x.client_version < 11) {
    f.fields += "Connection: keep-alive\r\n";
  }
  return f;
}

/// Passes the response to the client: its head, and then its body. Reads each piece only after the client has accepted
/// the previous piece. `sends_rest`: whether the rest of the request's body is sent to the upstream after the response.
/// `ahead`: the part of the response's body that was read already. `is_whole`: false if the connection broke before the
/// end of that body.
net::awaitable<attempt_end> relay(exchange& x, link& l, message_parser& parser, bool sends_rest, std::string_view ahead,
                                  bool is_whole) {
  x.status = parser.head().status;
  const framing f = frame(x, parser, sends_rest);
  std::string head = x.sink->head_for_client(parser.head()) + f.fields;
  if (x.keeps_client) head += x.keep_alive_line;
  head += "\r\n";
  if (x.follows_events) head.clear();
  std::vector<net::const_buffer> out;
  error_code error;
  for (;;) {
    out.clear();
    std::size_t size = 0;
    if (!x.has_begun) out.push_back(buffer_of(head));
    const std::size_t before_pieces = out.size();
    if (!ahead.empty()) {
      out.push_back(buffer_of(ahead));
      x.sink->see_piece(ahead);
      size += std::exchange(ahead, {}).size();
    }
    bool fails = parser.failure() != parse_failure::none;
    while (!fails && !parser.is_done() && !l.input.empty()) {
      const auto step = parser.read(l.input);
      fails = parser.failure() != parse_failure::none;
      if (!step.piece.empty()) {
        out.emplace_back(step.piece.data(), step.piece.size());
        x.sink->see_piece({step.piece.data(), step.piece.size()});
      }
      size += step.piece.size();
      if (fails || step.wants_more) break;
    }
    const chunk_line line{size};
    if (f.is_chunked && size > 0) {
      out.insert(out.begin() + static_cast<std::ptrdiff_t>(before_pieces), line.buffer());
      out.push_back(buffer_of("\r\n"));
    }
    if (f.is_chunked && parser.is_done()) out.push_back(buffer_of("0\r\n\r\n"));
    if (!out.empty()) {
      x.has_begun = true;
      if (const auto rest = x.client.write_now(out, error); !rest.empty() && !error) {
        co_await x.client.write(rest, x.write_stall, error);
      }
      if (error == errc::timed_out) co_return attempt_end::client_stalled;
      if (error || x.is_aborted) co_return attempt_end::client_lost;
      x.bytes_out += size;
    }
    if (fails || has_failed(x.body)) co_return attempt_end::cut;
    if (parser.is_done()) co_return attempt_end::complete;
    const net::mutable_buffer room = l.input.prepare(piece_size);
    if (room.size() == 0 || !is_whole) co_return attempt_end::cut;
    l.input.commit(co_await l.stream->read_some(room, x.left_of(x.up->timeout.idle), error));
    if (x.is_aborted) co_return attempt_end::client_lost;
    if (error == net::error::eof && parser.ends_with_stream()) {
      parser.end();
    } else if (error) {
      co_return attempt_end::cut;
    }
  }
}

/// Whether the rest of the request's body is sent to the upstream after its response. The rest is sent only if the
/// status is below 300 and the connection stays open.
bool takes_rest(const message_parser& parser) { return parser.head().status < 300 && parser.keep_alive(); }

net::awaitable<attempt_end> send_and_read(exchange& x, link& l, upload& u) {
  request_beginning first{x};
  if (has_failed(x.body)) co_return attempt_end::body_failed;
  error_code error;
  if (const auto rest = l.stream->write_now(first.pieces(), error); !rest.empty() && !error) {
    co_await l.stream->write(rest, x.left_of(x.up->timeout.idle), error);
  }
  if (x.is_aborted) co_return attempt_end::client_lost;
  // If a part of the request's body was sent before the error, the response is still read, because the upstream may
  // have answered that part.
  if (error && !first.has_body()) co_return attempt_end::lost;
  u.begin_after(first, !error);
  // If the request's body failed before the read of the response began, the failure could not cancel that read. So the
  // state of the body is checked here.
  if (has_failed(x.body)) co_return attempt_end::body_failed;

  auto parser = message_parser::of_response(response_limits, x.is_to_head);
  const head_end h = co_await read_head(x, l, parser, u);
  if (has_failed(x.body)) co_return attempt_end::body_failed;
  if (x.is_aborted) co_return attempt_end::client_lost;
  if (h != head_end::there) {
    co_return h == head_end::late ? attempt_end::first_byte_late
    : h == head_end::bad          ? attempt_end::bad_response
                                  : attempt_end::lost;
  }
  if (x.signs_in_connection || signs_in_connection(parser.head())) l.close_later = true;
  std::string ahead;
  bool is_whole = true;
  if (tells_in_body(x, parser)) {
    auto reading = read_ahead(x, l, parser, ahead);
    is_whole = co_await std::move(reading);
    if (x.is_aborted) co_return attempt_end::client_lost;
  }
  x.sink->see_head(parser.head(), ahead, x.target);
  if (!u.is_on() && x.sink->drops(parser.head(), ahead, x.target)) {
    x.status = parser.head().status;
    co_return attempt_end::put_back;
  }
  if (!x.sink->may_answer()) co_return attempt_end::outrun;
  if (parser.head().status == switching) {
    l.close_later = true;
    auto running = run_websocket(x, l, parser.head());
    co_return co_await std::move(running);
  }
  if (x.follows_events && !continues_events(parser.head())) {
    auto reading = keep_failed(x, l, parser, ahead, is_whole);
    co_return co_await std::move(reading);
  }
  const bool sends_rest = u.is_on() && takes_rest(parser);
  const attempt_end end = co_await relay(x, l, parser, sends_rest, ahead, is_whole);
  if (!parser.keep_alive() || !l.input.empty()) l.close_later = true;
  if (end == attempt_end::complete && u.is_on() && takes_rest(parser)) co_await u.await_rest();
  co_return end;
}

/// Sends the request over an open link, and passes the response on. For a tunnel, passes bytes in both directions
/// instead.
net::awaitable<attempt_end> use(exchange& x, link& l) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  ++l.uses;
  if (x.tunnelled != nullptr) {
    const attempt_end end = co_await run_tunnel(x, l);
    l.close();
    co_return end;
  }
  l.close_later = false;
  upload u{x, *l.stream, executor};
  const attempt_end end = co_await send_and_read(x, l, u);
  co_await u.finish();
  if (end != attempt_end::complete || l.close_later || (x.body != nullptr && !u.is_complete())) {
    l.close();
  } else {
    l.input.shrink(first_read);
  }
  co_return end;
}

attempt_end end_of(link_result r) {
  switch (r) {
    case link_result::forbidden:
      return attempt_end::forbidden;
    case link_result::own:
      return attempt_end::loop;
    case link_result::timed_out:
      return attempt_end::connect_timed_out;
    default:
      return attempt_end::unreachable;
  }
}

}  // namespace

duration exchange::left_of(duration limit, time_point since, time_point now) const noexcept {
  const time_point end = std::min(saturating_add(since, limit), until);
  return end > now ? end - now : duration{1};
}

duration exchange::left_of(duration limit) const noexcept {
  const time_point now = clock::now();
  return left_of(limit, now, now);
}

void exchange::drop() noexcept {
  is_aborted = true;
  if (over != nullptr) over->cancel();
}

void exchange::abort() noexcept {
  client.cancel();
  drop();
  if (beside != nullptr) beside->drop();
}

net::awaitable<attempt_end> run_exchange(exchange& x, link& l) {
  if (x.is_aborted) co_return attempt_end::client_lost;
  x.over = &l;
  l.is_called_off = false;
  attempt_end end = attempt_end::client_lost;
  link_result opened = link_result::open;
  // A tunnel needs a fresh connection, because a used one has carried HTTP requests.
  if (x.tunnelled != nullptr || !l.is_ready(x.is_tls))
    opened = co_await open_link(l, *x.up, x.is_tls, x.around, x.connect_time);
  if (opened == link_result::open && !x.is_aborted) {
    end = co_await use(x, l);
  } else if (!x.is_aborted) {
    end = end_of(opened);
    x.failure = std::move(l.failure);
    x.lacks_descriptor = l.lacks_descriptor;
  }
  x.over = nullptr;
  co_return end;
}

}  // namespace canigo::gateway
