#pragma once

#include "canigo/detail/context/suspended.hpp"
#include "canigo/error.hpp"
#include "canigo/http/detail/transfer.hpp"
#include "canigo/http/request.hpp"
#include "canigo/http/response.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/buffer.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace canigo::http::detail {

class stream;

/// A caller that waits for the next step of an exchange: bytes of the body, or the head.
class step : public canigo::detail::suspended {
 public:
  using results = std::tuple<std::error_code, std::size_t>;

  /// Without room in `to` it waits for the head.
  step(std::shared_ptr<stream> s, net::mutable_buffer to) noexcept : stream_{std::move(s)}, to_{to} {}

  results take_results() noexcept { return {error_, size_}; }
  static results failed(errc code) noexcept { return {make_error_code(code), 0}; }
  void abandon() noexcept {}
  void request_cancel() noexcept;
  const net::any_io_executor& home_executor() const noexcept;
  /// Ends it before the engine knows of it.
  void fail(errc code) noexcept { error_ = code; }

  std::error_code error() const noexcept { return error_; }

  /// Copies what there is room for, and returns its size.
  std::size_t take(std::string_view part) noexcept;
  /// Whether the step is there. If so, it is done, with its error.
  bool settle(const stream& s, bool has_ended) noexcept;

 protected:
  ~step() = default;

 private:
  friend void start(step& w) noexcept;

  std::shared_ptr<stream> stream_;
  const net::mutable_buffer to_;
  std::size_t size_ = 0;
  std::error_code error_;
};

/// A transfer whose caller reads the body part by part.
///
/// It keeps no part. curl holds one that the caller has no room for, stops reading the connection, and offers the part
/// again. A part that was decoded can't come again, so it is kept, and curl then reads no more until it is read. From
/// the start to the end it keeps itself.
class stream final : public transfer, public std::enable_shared_from_this<stream> {
 public:
  stream(std::shared_ptr<engine> e, request&& r) noexcept
      : transfer{std::move(e), own_request_}, own_request_{std::move(r)} {}
  ~stream() = default;

  // For its caller.
  /// Starts the step `w` of it, the first of all too.
  void ask(step& w) noexcept;
  void cancel(const step& w) noexcept;
  /// Ends it if it has not ended.
  void reset() noexcept;
  bool has_head() const noexcept { return has_head_; }
  /// From the first step on.
  const response& head() const noexcept { return head_; }
  /// After a step failed: more of why.
  const std::string& problem() const noexcept { return response_.problem; }
  const net::any_io_executor& executor() const noexcept;

  /// Why it ended.
  std::error_code error() const noexcept { return error_; }

  // For the engine.
  void resume() override {}
  void post() override;
  void destroy() noexcept override;

 private:
  friend class engine;

  bool is_stream() const noexcept override { return true; }
  void head_came() noexcept override;
  bool take(std::string_view part) override;
  bool take_all(std::string_view part, std::size_t most) override;
  bool is_ahead() const noexcept override { return !ahead_.empty(); }
  void read_ahead() noexcept override;
  void tell() override;

  request own_request_;
  response head_;
  bool is_started_ = false;
  bool has_head_ = false;
  std::size_t taken_ = 0;         // of the part that comes again
  std::string ahead_;             // decoded, and not read
  std::size_t ahead_taken_ = 0;   // of those
  std::shared_ptr<stream> self_;  // while the engine has it
  step* waiting_ = nullptr;       // with the engine's lock held
};

void start(step& w) noexcept;
const net::any_io_executor& executor_of(const stream& s) noexcept;

}  // namespace canigo::http::detail
