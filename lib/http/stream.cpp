#include "stream.hpp"

#include "engine.hpp"

#include <asio/error.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace canigo::http::detail {

void step::request_cancel() noexcept { stream_->cancel(*this); }

const net::any_io_executor& step::home_executor() const noexcept { return stream_->executor(); }

std::size_t step::take(std::string_view part) noexcept {
  if (error_) return 0;
  const std::size_t n = std::min(part.size(), room());
  if (n != 0) std::memcpy(static_cast<char*>(to_.data()) + size_, part.data(), n);
  size_ += n;
  return n;
}

std::size_t step::give(char* to, std::size_t room) noexcept {
  if (error_ || !is_write()) return 0;
  const std::size_t n = std::min(room, from_.size() - size_);
  if (n != 0) std::memcpy(to, static_cast<const char*>(from_.data()) + size_, n);
  size_ += n;
  return n;
}

bool step::settle(stream& s, bool has_ended) noexcept {
  const bool is_answered = is_write() ? s.was_turned_down() : to_.size() == 0 && s.has_head();
  const bool is_there = size_ != 0 || is_answered;
  if (has_ended && !is_there) error_ = s.error();
  if (is_write() && size_ == 0 && (has_ended || is_there)) s.writes_no_more();
  return has_ended || is_there || error_;
}

void start(step& w) noexcept {
  // ask() may end the operation `w`, which then releases its reference to the stream. So this copy keeps the stream
  // alive.
  const auto keep = w.stream_;
  keep->ask(w);
}

const net::any_io_executor& executor_of(const stream& s) noexcept { return s.executor(); }

void stream::ask(step& w) noexcept {
  if (is_started_) return engine_->ask(*this, w);
  is_started_ = true;
  error_ = w.error();
  self_ = shared_from_this();
  waiting_ = &w;
  engine_->start(*this);
}

void stream::cancel(const step& w) noexcept { engine_->cancel(*this, w); }

void stream::reset() noexcept {
  if (is_started_) engine_->cancel(*this);
}

const net::any_io_executor& stream::executor() const noexcept { return engine_->executor(); }

void stream::post() {
  const auto keep = shared_from_this();
  if (!has_head_ && !error_) {
    has_head_ = true;
    head_ = std::move(response_);
  }
  // If bytes have arrived before an error, the caller gets these bytes before the error. If the caller itself has ended
  // the transfer, the bytes are dropped.
  if (error_ == net::error::operation_aborted || error_ == errc::stopped) ahead_.clear();
  read_ahead();
  engine_->tell(*this);
  self_.reset();
}

void stream::destroy() noexcept {
  const auto keep = shared_from_this();
  self_.reset();
  if (step* w = std::exchange(waiting_, nullptr)) w->destroy();
}

void stream::head_came() noexcept {
  has_head_ = true;
  head_ = std::move(response_);
  engine_->head_came(*this);
}

bool stream::has_room(std::size_t size) const noexcept {
  const step* reader = engine_->waiting_step(*this);
  return reader != nullptr && reader->room() >= size;
}

bool stream::take(std::string_view part, std::size_t most) {
  read_ahead();
  if (step* reader = engine_->waiting_step(*this); reader != nullptr && ahead() == 0) {
    const std::size_t n = reader->take(part);
    if (n != 0) engine_->has_news(*this);
    part.remove_prefix(n);
  }
  if (part.size() > most - std::min(most, ahead())) return false;
  ahead_.append(part);
  return true;
}

void stream::read_ahead() noexcept {
  constexpr std::size_t most_room_kept = 64 << 10;
  if (ahead_.empty()) return;
  step* reader = engine_->waiting_step(*this);
  if (reader == nullptr) return;
  ahead_taken_ += reader->take(std::string_view{ahead_}.substr(ahead_taken_));
  if (ahead_taken_ < ahead_.size()) return;
  ahead_taken_ = 0;
  ahead_.clear();
  if (ahead_.capacity() > most_room_kept) std::string{}.swap(ahead_);
}

void stream::sends_no_more() noexcept {
  sends_no_more_ = true;
  engine_->has_news(*this);
}

std::uint64_t stream::bytes_to_write() const noexcept {
  const auto all = to_write_->bytes;
  return all && !writes_no_more_ ? *all - written_ : std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t stream::missing_bytes() const noexcept {
  return to_write_->bytes && !writes_no_more_ ? *to_write_->bytes - written_ : 0;
}

std::optional<std::int64_t> stream::length_to_write() const noexcept {
  if (!to_write_) return std::nullopt;
  return to_write_->bytes ? static_cast<std::int64_t>(*to_write_->bytes) : -1;
}

bool stream::has_written_all() const noexcept {
  if (!to_write_) return false;
  const step* w = engine_->waiting_step(*this);
  return w != nullptr && !w->is_write();
}

bool stream::is_writing() const noexcept {
  if (!to_write_ || was_told_the_end_ || writes_no_more_ || was_turned_down()) return false;
  return !to_write_->bytes || written_ < *to_write_->bytes;
}

std::optional<std::size_t> stream::give(char* to, std::size_t room) noexcept {
  step* writer = engine_->waiting_step(*this);
  if (writer == nullptr) return std::nullopt;
  if (!writer->is_write()) {
    was_told_the_end_ = true;
    return 0;
  }
  const std::size_t n = writer->give(to, room);
  if (n == 0) return std::nullopt;
  if (std::exchange(written_, written_ + n) == 0) engine_->time_of_caller_begins(*this);
  engine_->has_news(*this);
  return n;
}

void stream::tell() { engine_->tell(*this); }

}  // namespace canigo::http::detail
