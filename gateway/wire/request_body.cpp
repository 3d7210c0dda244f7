#include "gateway/wire/request_body.hpp"

#include "canigo/error.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace canigo::gateway {
namespace {

constexpr std::size_t body_piece_size = 64 << 10;
// Kept bytes are given out in pieces of this size. It is small enough to be written within an upstream's time limit for
// a write.
constexpr std::size_t kept_piece_size = 256 << 10;

}  // namespace

std::span<const char> request_body::piece_now() {
  if (sent_ < kept_.size()) {
    const std::span<const char> again{kept_.data() + sent_, std::min(kept_.size() - sent_, kept_piece_size)};
    sent_ += again.size();
    return again;
  }
  if (!is_ahead_ && kept_.size() > most_kept_) drop_kept();
  while (!parser_.is_done() && status_ == status::good && !input_.empty()) {
    const auto step = parser_.read(input_);
    if (parser_.failure() != parse_failure::none) {
      status_ = parser_.failure() == parse_failure::body_too_large ? status::too_large : status::malformed;
      break;
    }
    if (!step.piece.empty()) {
      read_ += step.piece.size();
      keep(step.piece);
      return step.piece;
    }
    if (step.wants_more) break;
  }
  return {};
}

std::size_t request_body::next_now(std::span<std::span<const char>> to) {
  // If kept bytes are given out again, only one piece is returned: a further piece might be appended to kept_, which
  // may move the first one in memory.
  const bool is_again = sent_ < kept_.size();
  std::size_t n = 0;
  while (n < (is_again ? 1 : to.size())) {
    to[n] = piece_now();
    if (to[n].empty()) break;
    ++n;
  }
  return n;
}

net::awaitable<std::span<const char>> request_body::next() {
  for (;;) {
    const std::span<const char> piece = piece_now();
    if (!piece.empty() || parser_.is_done() || status_ != status::good) co_return piece;
    co_await read_more();
  }
}

net::awaitable<void> request_body::read_more() {
  error_code error;
  if (std::exchange(continues_, false)) {
    constexpr std::string_view text = "HTTP/1.1 100 Continue\r\n\r\n";
    std::array pieces{net::const_buffer{text.data(), text.size()}};
    co_await client_.write(pieces, idle_, error);
  }
  const net::mutable_buffer room = input_.prepare(body_piece_size);
  if (room.size() == 0) {  // the buffer is full: it can't hold the line with the size of the next chunk
    status_ = status::malformed;
    co_return;
  }
  if (!error) input_.commit(co_await client_.read_some(room, idle_, error));
  if (!error) co_return;
  status_ = error == errc::timed_out                 ? status::timed_out
            : error == net::error::operation_aborted ? status::interrupted
                                                     : status::client_failed;
}

/// Whether read_ahead() must read more bytes.
bool request_body::is_short_of(std::uint64_t most) const noexcept {
  return !parser_.is_done() && status_ == status::good && read_ < most && all_kept_.has_room(body_piece_size);
}

net::awaitable<void> request_body::read_ahead(std::uint64_t most) {
  is_ahead_ = true;
  sent_ = kept_.size();
  while (is_short_of(most)) {
    const std::span<const char> piece = co_await next();
    if (piece.empty()) break;
  }
  is_ahead_ = false;
  rewind();
}

bool request_body::read_ahead_now(std::uint64_t most) {
  is_ahead_ = true;
  while (is_short_of(most) && !piece_now().empty()) {
  }
  is_ahead_ = false;
  rewind();
  return !is_short_of(most);
}

void request_body::replace(std::string text) {
  all_kept_.give_back(kept_.size());
  all_kept_.add(text.size());
  kept_ = std::move(text);
  is_replaced_ = true;
  rewind();
}

/// Drops the kept bytes. From now on the body can't be sent again.
void request_body::drop_kept() noexcept {
  keeps_ = is_replaced_ = false;
  all_kept_.give_back(kept_.size());
  kept_ = {};
  sent_ = 0;
}

void request_body::keep(std::span<const char> piece) {
  if (is_ahead_) {
    all_kept_.add(piece.size());
    kept_.append(piece.data(), piece.size());
    sent_ = kept_.size();
    return;
  }
  if (!keeps_) return;
  if (read_ > most_kept_ || !all_kept_.take(piece.size())) {
    drop_kept();
    return;
  }
  kept_.append(piece.data(), piece.size());
  sent_ = kept_.size();
}

}  // namespace canigo::gateway
