#pragma once

#include "canigo/detail/context/work_item.hpp"
#include "canigo/error.hpp"
#include "canigo/http/detail/transfer.hpp"
#include "canigo/http/request.hpp"
#include "canigo/http/response.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace canigo::http::detail {

class stream;

/// A caller that waits for one step of an exchange: the head of the response, bytes of its body, or the sending of
/// bytes of the request's body.
class step : public canigo::detail::suspended {
 public:
  using results = std::tuple<std::error_code, std::size_t>;

  /// Waits for bytes of the response's body, or for the head of the response if `to` is empty.
  step(std::shared_ptr<stream> s, net::mutable_buffer to) noexcept : stream_{std::move(s)}, to_{to} {}
  /// Waits until curl has accepted at least one byte of `from`.
  step(std::shared_ptr<stream> s, net::const_buffer from) noexcept : stream_{std::move(s)}, from_{from} {}

  results take_results() noexcept { return {error_, size_}; }
  static results failed(errc code) noexcept { return {make_error_code(code), 0}; }
  void abandon() noexcept {}
  void request_cancel() noexcept;
  const net::any_io_executor& home_executor() const noexcept;
  /// Sets the error with which the step ends. Call it before the step is passed to the engine.
  void fail(errc code) noexcept { error_ = code; }

  std::error_code error() const noexcept { return error_; }

  /// Copies as many bytes of `part` as fit into the caller's buffer, and returns their number.
  std::size_t take(std::string_view part) noexcept;
  bool is_write() const noexcept { return from_.size() != 0; }
  /// The free bytes in the caller's buffer; 0 for a step that writes.
  std::size_t room() const noexcept { return is_write() ? 0 : to_.size() - size_; }
  /// Copies the next bytes of the caller's data into `to`, at most `room` bytes. Returns the number of copied bytes.
  std::size_t give(char* to, std::size_t room) noexcept;
  /// Returns whether the step is complete. If the stream ends before the step is complete, sets the step's error.
  bool settle(stream& s, bool has_ended) noexcept;

 protected:
  ~step() = default;

 private:
  friend void start(step& w) noexcept;

  std::shared_ptr<stream> stream_;
  const net::mutable_buffer to_;
  const net::const_buffer from_;
  std::size_t size_ = 0;  // the number of bytes that the step has read or written so far
  std::error_code error_;
};

/// The length of a body that the caller writes in parts; std::nullopt: the length is unknown.
struct body_length {
  std::optional<std::uint64_t> bytes;
};

/// A transfer whose caller reads the body of the response in parts. The caller may also write the body of the request
/// in parts.
///
/// If a part does not fit into the caller's buffer, the stream keeps the rest, and curl reads no more of the body until
/// the caller has read the rest. During an upload over HTTP/2 curl must continue to read, so the stream then stores all
/// bytes of the answer. The stream owns itself from its start to its end.
class stream final : public transfer, public std::enable_shared_from_this<stream> {
 public:
  stream(std::shared_ptr<engine> e, request&& r) noexcept
      : transfer{std::move(e), own_request_}, own_request_{std::move(r)} {}
  stream(std::shared_ptr<engine> e, request&& r, body_length to_write) noexcept : stream{std::move(e), std::move(r)} {
    to_write_ = to_write;
  }
  ~stream() = default;

  // Only the caller calls the following members.
  // Starts the step `w`. The first step also starts the transfer.
  void ask(step& w) noexcept;
  void cancel(const step& w) noexcept;
  /// Ends the transfer if it has started and has not ended.
  void reset() noexcept;
  bool has_head() const noexcept { return has_head_; }
  /// The head of the response; empty while has_head() is false.
  const response& head() const noexcept { return head_; }
  /// The explanation of an error, after a step has failed.
  const std::string& problem() const noexcept { return response_.problem; }
  const net::any_io_executor& executor() const noexcept;
  /// How many bytes of the request's body the caller may still write.
  std::uint64_t bytes_to_write() const noexcept;
  /// How many bytes of the announced body the caller has not written yet.
  std::uint64_t missing_bytes() const noexcept;
  /// Call it when the caller learns that the server accepts no more of the request's body.
  void writes_no_more() noexcept { writes_no_more_ = true; }
  /// Whether the server has answered, and does not want the rest of the request's body.
  bool was_turned_down() const noexcept { return has_head_ && to_write_ && (head_.status >= 300 || sends_no_more_); }

  /// The error with which the transfer has ended.
  std::error_code error() const noexcept { return error_; }

  // Only the engine calls the following members.
  void resume() override {}
  void post() override;
  void destroy() noexcept override;

 private:
  friend class engine;

  bool is_stream() const noexcept override { return true; }
  void head_came() noexcept override;
  bool take(std::string_view part, std::size_t most) override;
  bool has_room(std::size_t size) const noexcept override;
  std::size_t ahead() const noexcept override { return ahead_.size() - ahead_taken_; }
  void read_ahead() noexcept override;
  void sends_no_more() noexcept override;
  std::optional<std::int64_t> length_to_write() const noexcept override;
  std::optional<std::size_t> give(char* to, std::size_t room) noexcept override;
  bool has_written_all() const noexcept override;
  bool is_writing() const noexcept override;
  void tell() override;

  request own_request_;
  std::optional<body_length> to_write_;
  std::uint64_t written_ = 0;
  bool was_told_the_end_ = false;  // whether curl knows that a request's body of unknown length has ended
  bool sends_no_more_ = false;     // whether curl sends no more bytes of the request's body
  bool writes_no_more_ = false;    // whether the caller knows that the server accepts no more of the request's body
  response head_;
  bool is_started_ = false;
  bool has_head_ = false;
  std::string ahead_;             // bytes of the response's body that did not fit into the caller's buffer
  std::size_t ahead_taken_ = 0;   // how many bytes of `ahead_` the caller has read
  std::shared_ptr<stream> self_;  // keeps this object alive while the engine has the stream
  step* waiting_ = nullptr;       // the step that the caller waits for; null: none; guarded by the engine's lock
};

void start(step& w) noexcept;
const net::any_io_executor& executor_of(const stream& s) noexcept;

}  // namespace canigo::http::detail
