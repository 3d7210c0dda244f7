#include "gateway/upstream/upload.hpp"

#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include <array>
#include <chrono>
#include <exception>
#include <span>

namespace canigo::gateway {

namespace {
using clock = std::chrono::steady_clock;
}

bool has_failed(const request_body* body) noexcept {
  return body != nullptr && body->state() != request_body::status::good &&
         body->state() != request_body::status::interrupted;
}

request_beginning::request_beginning(exchange& x) {
  add(buffer_of(x.head));
  if (x.body == nullptr) return;
  std::array<std::span<const char>, most_pieces> found;
  const std::size_t n = x.body->next_now(found);
  std::size_t size = 0;
  for (std::size_t i = 0; i < n; ++i) size += found[i].size();
  has_body_ = size > 0;
  is_whole_ = x.body->is_given_out();
  if (x.is_chunked && has_body_) add(line_.emplace(size).buffer());
  for (std::size_t i = 0; i < n; ++i) add({found[i].data(), found[i].size()});
  if (x.is_chunked && has_body_) add(buffer_of("\r\n"));
  if (x.is_chunked && is_whole_) add(buffer_of("0\r\n\r\n"));
}

upload::upload(exchange& x, byte_stream& to, const net::any_io_executor& executor)
    : x_{x}, to_{to}, ended_{executor, time_point::max()} {}

void upload::begin_after(const request_beginning& first, bool is_sent) {
  is_complete_ = first.is_whole() && is_sent;
  over_at_ = clock::now();
  if (x_.body == nullptr || first.is_whole() || !is_sent) return;
  is_on_ = true;
  net::co_spawn(ended_.get_executor(), send_body(), [this](const std::exception_ptr&) {
    is_on_ = false;
    over_at_ = clock::now();
    ended_.cancel();
  });
}

net::awaitable<void> upload::send_body() {
  error_code error;
  for (;;) {
    const std::span<const char> piece = co_await x_.body->next();
    // If the body has failed, cancel() ends the exchange. Without cancel(), the upstream would wait for the rest of
    // the body for ever.
    if (has_failed(x_.body)) {
      to_.cancel();
      co_return;
    }
    if (is_stopped_ || x_.body->state() != request_body::status::good) co_return;
    if (piece.empty()) break;
    if (x_.is_chunked) {
      const chunk_line size{piece.size()};
      std::array pieces{size.buffer(), net::const_buffer{piece.data(), piece.size()}, buffer_of("\r\n")};
      co_await to_.write(pieces, x_.up->timeout.idle, error);
    } else {
      std::array pieces{net::const_buffer{piece.data(), piece.size()}};
      co_await to_.write(pieces, x_.up->timeout.idle, error);
    }
    // If sending fails, the read of the response is not cancelled, because the upstream may have answered already.
    if (error || is_stopped_) co_return;
  }
  if (x_.is_chunked) {
    std::array pieces{buffer_of("0\r\n\r\n")};
    co_await to_.write(pieces, x_.up->timeout.idle, error);
  }
  is_complete_ = !error;
}

net::awaitable<void> upload::await_rest() {
  error_code ignored;
  ended_.expires_at(x_.until);
  co_await ended_.async_wait(net::redirect_error(net::use_awaitable, ignored));
  x_.has_lost_rest = !is_complete_ && !has_failed(x_.body) && !x_.is_aborted;
  ended_.expires_at(time_point::max());
}

net::awaitable<void> upload::finish() {
  is_stopped_ = true;
  error_code ignored;
  while (is_on_) {
    x_.client.cancel();
    to_.cancel();
    co_await ended_.async_wait(net::redirect_error(net::use_awaitable, ignored));
  }
  if (x_.body != nullptr) x_.body->resume();
}

}  // namespace canigo::gateway
