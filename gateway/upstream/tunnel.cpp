#include "gateway/upstream/tunnel.hpp"

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
#include <string>

namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

// A tunnel may be idle for long, so it begins with little room.
constexpr std::size_t least_piece = 4 << 10;
constexpr std::size_t most_piece = 64 << 10;

/// The state that both ways of a tunnel share.
struct tunnel {
  tunnel(exchange& x, byte_stream& far, const net::any_io_executor& e)
      : of{x}, client{x.client}, server{far}, idle{x.up->timeout.idle}, ended{e, time_point::max()} {}

  const exchange& of;
  byte_stream& client;
  byte_stream& server;
  const duration idle;
  time_point moved = clock::now();  // the last time at which bytes moved
  attempt_end end = attempt_end::complete;
  bool is_stopped = false;
  bool is_one_way_on = false;
  net::steady_timer ended;

  /// Ends both ways. The first reason counts.
  void stop(attempt_end why) noexcept {
    if (is_stopped) return;
    is_stopped = true;
    end = why;
    client.cancel();
    server.cancel();
  }
};

/// One way of a tunnel.
struct way {
  byte_stream& from;
  byte_stream& to;
  read_buffer& buffer;
  std::uint64_t& bytes;
  attempt_end from_failed;  ///< how the tunnel ends if that side fails
  attempt_end to_failed;
  attempt_end to_stalled;
  duration stall;  ///< how long `to` may take no byte
  std::function<void()> sees_byte;
};

/// Reads until there are bytes. False at the end of the stream, and if the tunnel has stopped.
net::awaitable<bool> read_piece(tunnel& t, way& w, std::size_t& piece) {
  for (;;) {
    const duration left = t.moved + t.idle - clock::now();
    if (left <= duration::zero()) t.stop(attempt_end::idle);
    if (t.of.is_aborted) t.stop(attempt_end::client_lost);  // cancel() does not reach an operation that was over
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
    if (error == errc::timed_out) continue;  // the other way may have moved meanwhile
    if (error && error != net::error::eof) t.stop(w.from_failed);
    co_return false;
  }
}

net::awaitable<void> pass(tunnel& t, way& w) {
  std::size_t piece = least_piece;
  error_code error;
  for (;;) {
    if (w.buffer.empty()) {
      const bool has_more = co_await read_piece(t, w, piece);
      if (!has_more) break;
    }
    const std::size_t size = w.buffer.size();
    std::array pieces{net::const_buffer{w.buffer.unread().data(), size}};
    co_await w.to.write(pieces, w.stall, error);
    if (error) t.stop(error == errc::timed_out ? w.to_stalled : w.to_failed);
    if (t.is_stopped) co_return;
    w.bytes += size;
    w.buffer.consume(size);
    t.moved = clock::now();
  }
  if (t.is_stopped) co_return;
  w.buffer.shrink();
  if (!w.to.end_sending()) t.stop(attempt_end::complete);
}

}  // namespace

net::awaitable<attempt_end> run_tunnel(exchange& x, link& l) {
  x.sink->begin_tunnel();
  message_head opened;
  opened.status = 200;
  x.sink->see_head(opened, {}, x.target);
  const std::string head = x.sink->head_for_client(opened) + "\r\n";
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
  way up{x.client,         *l.stream,        *x.tunnelled, x.bytes_in, attempt_end::client_lost,
         attempt_end::cut, attempt_end::cut, t.idle,       {}};
  way down{*l.stream,
           x.client,
           l.input,
           x.bytes_out,
           attempt_end::cut,
           attempt_end::client_lost,
           attempt_end::client_stalled,
           x.write_stall,
           {}};
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
  } catch (...) {  // no memory
    failed = std::current_exception();
    t.stop(attempt_end::cut);
  }
  while (t.is_one_way_on) co_await t.ended.async_wait(net::redirect_error(net::use_awaitable, error));
  l.input.consume(l.input.size());
  if (failed) std::rethrow_exception(failed);
  co_return x.is_aborted ? attempt_end::client_lost : t.end;
}

}  // namespace canigo::gateway
