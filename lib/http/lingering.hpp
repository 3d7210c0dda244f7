#pragma once

#include "canigo/detail/context/marked_executor.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/error.hpp"
#include "canigo/http/detail/transfer.hpp"
#include "canigo/http/request.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>

#include <memory>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace canigo::http::detail {

class lingering;

/// A caller that waits for the end of a request. At the timeout only the caller's wait ends; the request continues.
class lingering_call : public canigo::detail::suspended {
 public:
  using results = std::tuple<std::error_code, ended_transfer>;

  explicit lingering_call(std::shared_ptr<lingering> l) noexcept : request_{std::move(l)} {}

  results take_results() noexcept;
  static results failed(errc code) noexcept { return {make_error_code(code), ended_transfer{}}; }
  void abandon() noexcept {}
  void request_cancel() noexcept;
  const net::any_io_executor& home_executor() const noexcept;
  /// Sets the error with which the call ends. Call it before the call is passed to the engine.
  void fail(errc code) noexcept { error_ = code; }

 protected:
  ~lingering_call() = default;

 private:
  friend class lingering;
  friend void start(lingering_call& c) noexcept;

  std::shared_ptr<lingering> request_;
  std::error_code error_;
};

/// A request that continues after its caller has stopped waiting, because its server may still work on it: see
/// request::linger.
///
/// When the caller has stopped waiting, the answer is dropped. The request owns itself from its start to its end.
class lingering final : public transfer, public std::enable_shared_from_this<lingering> {
 public:
  /// `executor`: the executor of the caller. If this executor carries the executor_mark of work that holds a permit,
  /// the permit is kept while this object exists. Throws std::bad_alloc.
  lingering(std::shared_ptr<engine> e, request&& r, const net::any_io_executor& executor)
      : transfer{std::move(e), own_request_}, places_{executor}, own_request_{std::move(r)} {}
  ~lingering() = default;

  // Only the caller calls the following members.
  void ask(lingering_call& c) noexcept;
  void cancel() noexcept;
  ended_transfer take_end() noexcept { return std::move(end_); }
  const net::any_io_executor& executor() const noexcept;

  // Only the engine calls the following members.
  void resume() override {}
  void post() override;
  void destroy() noexcept override;

 private:
  duration lingers() const noexcept override { return is_left_ ? duration::zero() : own_request_.linger; }
  void leave(std::error_code ec, std::string problem) noexcept override;
  bool is_left() const noexcept override { return is_left_; }
  bool take(std::string_view part, std::size_t most) override;
  void tell() override;

  const canigo::detail::kept_places places_;
  request own_request_;
  std::shared_ptr<lingering> self_;  // keeps this object alive while the engine has the request.
  // The call that waits for the end of the request. Once the request has started, only the client's working thread uses
  // this pointer.
  lingering_call* waiting_ = nullptr;
  ended_transfer end_;  // the response and the error for the caller
  bool is_left_ = false;
};

void start(lingering_call& c) noexcept;
const net::any_io_executor& executor_of(const lingering& l) noexcept;

}  // namespace canigo::http::detail
