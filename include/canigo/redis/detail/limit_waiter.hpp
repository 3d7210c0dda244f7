#pragma once

#include "canigo/detail/context/initiation.hpp"
#include "canigo/detail/context/timed_call.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/redis/detail/limit_request.hpp"
#include "canigo/redis/permit.hpp"
#include "canigo/request.hpp"
#include "canigo/time_source.hpp"

#include <asio/any_io_executor.hpp>

#include <memory>
#include <system_error>
#include <tuple>
#include <utility>

namespace canigo::redis::detail {

class ledger;

/// A caller that waits for a grant from Redis.
class limit_waiter : public canigo::detail::suspended, protected limit_request {
 public:
  /// If `is_patient` is false, the waiter ends with the next call of the Redis script, granted or not.
  limit_waiter(std::shared_ptr<ledger> l, const request& r, bool is_patient = true) noexcept;

  void abandon() noexcept { granted_ = {}; }
  void request_cancel() noexcept;
  const net::any_io_executor& home_executor() const noexcept;
  /// Sets the error with which the waiter ends. Call it before start().
  void fail(errc code) noexcept { error_ = code; }

 protected:
  ~limit_waiter();
  /// Takes the permit. The permit is empty if its lease ended before the caller was resumed.
  permit take_permit() noexcept;

  std::error_code error_;

 private:
  friend class ledger;
  friend class canigo::detail::timed_call<limit_waiter>;
  friend void start(limit_waiter& w) noexcept;
  void time_is_up(due why) noexcept;

  std::shared_ptr<ledger> home_;
  permit granted_;
  canigo::detail::timed_call<limit_waiter> deadline_;
};

/// A waiter whose handler takes an error code.
class quota_waiter : public limit_waiter {
 public:
  using limit_waiter::limit_waiter;
  using results = std::tuple<std::error_code>;
  using signature = void(std::error_code);
  results take_results() noexcept { return {error_}; }
  static results failed(errc code) noexcept { return {make_error_code(code)}; }
};

/// A waiter whose handler takes an error code and a permit.
class place_waiter : public limit_waiter {
 public:
  using limit_waiter::limit_waiter;
  using results = std::tuple<std::error_code, permit>;
  using signature = void(std::error_code, permit);
  results take_results() noexcept {
    permit p = take_permit();
    return {error_, std::move(p)};
  }
  static results failed(errc code) noexcept { return {make_error_code(code), permit{}}; }
};

void start(limit_waiter& w) noexcept;
const net::any_io_executor& executor_of(const ledger& l) noexcept;

/// Starts a wait for a caller with a completion token.
template <class Waiter>
using start_limit_wait = canigo::detail::initiation<Waiter, ledger>;

}  // namespace canigo::redis::detail
