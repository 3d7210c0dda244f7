#include "gateway/upstream/tunnel.hpp"

#include "canigo/scheduler.hpp"

#include "gateway/wire/websocket_frames.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

// The initial size of a read, in bytes. It is small, because a tunnel may be idle for a long time and keeps the buffer.
constexpr std::size_t least_piece = 4 << 10;
constexpr std::size_t most_piece = 64 << 10;

duration idle_of(const exchange& x) noexcept {
  return x.upgraded != nullptr ? x.up->websocket->idle : x.up->timeout.idle;
}

/// The state that both directions of a tunnel share.
struct tunnel {
  tunnel(exchange& x, byte_stream& far, const net::any_io_executor& e)
      : of{x}, client{x.client}, server{far}, idle{idle_of(x)}, ended{e, time_point::max()} {}

  const exchange& of;
  byte_stream& client;
  byte_stream& server;
  const duration idle;
  time_point moved = clock::now();  // when a byte was last passed on, in either direction
  attempt_end end = attempt_end::complete;
  bool is_stopped = false;
  bool is_one_way_on = false;
  bool waits_for_token = false;
  net::cancellation_signal token_wait;
  net::steady_timer ended;

  /// Ends both directions of the tunnel. If stop() is called several times, the first call decides the reason.
  void stop(attempt_end why) noexcept {
    if (is_stopped) return;
    is_stopped = true;
    end = why;
    client.cancel();
    server.cancel();
    token_wait.emit(net::cancellation_type::terminal);
  }
};

/// One direction of a tunnel.
struct way {
  byte_stream& from;
  byte_stream& to;
  read_buffer& buffer;
  std::uint64_t& bytes;
  attempt_end from_failed;  ///< how the tunnel ends if reading from `from` fails
  attempt_end to_failed;
  attempt_end to_stalled;
  duration stall;  ///< the tunnel ends if `to` accepts no byte for this time
  std::function<void()> sees_byte = {};
  std::optional<websocket_frames> frames = {};  ///< set if each websocket message of this direction takes a token
  bool ends_both = false;                       ///< true: the end of this direction also ends the other direction
};

/// Reads until there are bytes. Returns false at the end of the stream, or if the tunnel was stopped.
net::awaitable<bool> read_piece(tunnel& t, way& w, std::size_t& piece) {
  for (;;) {
    // While one direction waits for a token, the tunnel does not count as idle: the gateway itself holds back bytes.
    if (t.waits_for_token) t.moved = clock::now();
    const duration left = t.moved + t.idle - clock::now();
    if (left <= duration::zero()) t.stop(attempt_end::idle);
    // The flag `is_aborted` is checked because cancel() has no effect on an operation that has already completed.
    if (t.of.is_aborted) t.stop(attempt_end::client_lost);
    if (t.is_stopped) co_return false;
    const net::mutable_buffer room = w.buffer.prepare(piece);
    error_code error;
    const std::size_t n = co_await w.from.read_some(room, left, error);
    w.buffer.commit(n);
    if (n > 0) {
      if (n == room.size()) piece = std::min(2 * piece, most_piece);
      t.moved = clock::now();
      if (w.sees_byte) w.sees_byte();
      co_return !t.is_stopped;
    }
    // A timeout of this read does not end the tunnel: a byte may have been passed on in the other direction meanwhile.
    if (error == errc::timed_out) continue;
    if (error && error != net::error::eof) t.stop(w.from_failed);
    co_return false;
  }
}

/// While this object exists, the sink watches whether the client disconnects. The tunnel uses this object while it
/// reads nothing from the client, because without a read the tunnel does not detect a disconnect.
class watched {
 public:
  explicit watched(tunnel& t) : home_{t} { home_.of.sink->watch_client(true); }
  ~watched() { home_.of.sink->watch_client(false); }
  watched(const watched&) = delete;
  watched& operator=(const watched&) = delete;

 private:
  tunnel& home_;
};

/// Sends the bytes. If a websocket's receiver does not accept all of them at once, watches the client during the wait:
/// the tunnel ends if the client disconnects.
net::awaitable<void> send(tunnel& t, way& w, net::const_buffer bytes, error_code& error) {
  std::array pieces{bytes};
  if (t.of.upgraded == nullptr) {
    co_await w.to.write(pieces, w.stall, error);
    co_return;
  }
  const auto rest = w.to.write_now(pieces, error);
  if (rest.empty() || error) co_return;
  const watched client{t};
  if (t.of.is_aborted) t.stop(attempt_end::client_lost);
  if (!t.is_stopped) co_await w.to.write(rest, w.stall, error);
}

/// Returns how many of the unread bytes may be sent now. If the bytes begin a new message, first waits for a token of
/// the message rate.
net::awaitable<std::size_t> let_through(tunnel& t, way& w) {
  const std::string_view unread{w.buffer.unread().data(), w.buffer.size()};
  std::size_t size = w.frames->pass(unread);
  if (size > 0) co_return size;
  const watched client{t};
  if (t.of.is_aborted) t.stop(attempt_end::client_lost);
  if (t.is_stopped) co_return 0;
  t.waits_for_token = true;
  error_code error;
  co_await t.of.messages->async_acquire(
      t.of.message_ask,
      net::bind_cancellation_slot(t.token_wait.slot(), net::redirect_error(net::use_awaitable, error)));
  t.waits_for_token = false;
  t.moved = clock::now();
  if (error) t.stop(attempt_end::cut);
  if (t.is_stopped) co_return 0;
  w.frames->begin();
  co_return w.frames->pass(unread);
}

net::awaitable<void> pass(tunnel& t, way& w) {
  std::size_t piece = least_piece;
  error_code error;
  for (;;) {
    if (w.buffer.empty()) {
      const bool has_more = co_await read_piece(t, w, piece);
      if (!has_more) break;
    }
    std::size_t size = w.buffer.size();
    if (w.frames) {
      auto letting = let_through(t, w);
      size = co_await std::move(letting);
      if (t.is_stopped) co_return;
    }
    auto sending = send(t, w, {w.buffer.unread().data(), size}, error);
    co_await std::move(sending);
    if (error) t.stop(error == errc::timed_out ? w.to_stalled : w.to_failed);
    if (t.is_stopped) co_return;
    w.bytes += size;
    w.buffer.consume(size);
    t.moved = clock::now();
  }
  if (t.is_stopped) co_return;
  w.buffer.shrink();
  // If one direction of a websocket has ended, the other direction is ended, too, because the client may wait for the
  // end of the connection (RFC 6455, 7.1.1).
  if (w.ends_both || !w.to.end_sending()) t.stop(attempt_end::complete);
}

/// Tells the client that its tunnel is open, and passes bytes in both directions. `fields`: the last lines of the
/// response's head. `sent`: the bytes that were already read from the client.
net::awaitable<attempt_end> run(exchange& x, link& l, const message_head& opened, std::string_view fields,
                                read_buffer& sent) {
  std::string head = x.sink->head_for_client(opened);
  head.append(fields).append("\r\n");
  x.status = opened.status;
  x.keeps_client = false;
  x.has_begun = true;
  std::array pieces{net::const_buffer{head.data(), head.size()}};
  error_code error;
  co_await x.client.write(pieces, x.write_stall, error);
  if (error == errc::timed_out) co_return attempt_end::client_stalled;
  if (error || x.is_aborted) co_return attempt_end::client_lost;

  const net::any_io_executor executor = co_await net::this_coro::executor;
  tunnel t{x, *l.stream, executor};
  way up{.from = x.client,
         .to = *l.stream,
         .buffer = sent,
         .bytes = x.bytes_in,
         .from_failed = attempt_end::client_lost,
         .to_failed = attempt_end::cut,
         .to_stalled = attempt_end::cut,
         .stall = t.idle};
  if (x.messages != nullptr) up.frames.emplace();
  way down{.from = *l.stream,
           .to = x.client,
           .buffer = l.input,
           .bytes = x.bytes_out,
           .from_failed = attempt_end::cut,
           .to_failed = attempt_end::client_lost,
           .to_stalled = attempt_end::client_stalled,
           .stall = x.write_stall,
           .ends_both = x.upgraded != nullptr};
  down.sees_byte = [&x] {
    if (!x.first_byte) x.first_byte = clock::now();
  };
  t.is_one_way_on = true;
  net::co_spawn(executor, pass(t, up), [&t](const std::exception_ptr& failed) {
    if (failed) t.stop(attempt_end::cut);
    t.is_one_way_on = false;
    t.ended.cancel();
  });
  std::exception_ptr failed;
  try {
    co_await pass(t, down);
  } catch (...) {  // no memory for the coroutine of the direction `down`
    failed = std::current_exception();
    t.stop(attempt_end::cut);
  }
  while (t.is_one_way_on) co_await t.ended.async_wait(net::redirect_error(net::use_awaitable, error));
  l.input.consume(l.input.size());
  if (failed) std::rethrow_exception(failed);
  co_return x.is_aborted ? attempt_end::client_lost : t.end;
}

}  // namespace

net::awaitable<attempt_end> run_tunnel(exchange& x, link& l) {
  x.sink->begin_tunnel();
  message_head opened;
  opened.status = 200;
  x.sink->see_head(opened, {}, x.target);
  auto running = run(x, l, opened, {}, *x.tunnelled);
  co_return co_await std::move(running);
}

net::awaitable<attempt_end> run_websocket(exchange& x, link& l, const message_head& opened) {
  x.sink->begin_tunnel();
  auto running = run(x, l, opened, "Connection: Upgrade\r\nUpgrade: websocket\r\n", *x.upgraded);
  co_return co_await std::move(running);
}

}  // namespace canigo::gateway
