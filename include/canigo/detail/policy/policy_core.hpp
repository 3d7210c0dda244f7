#pragma once

#include "canigo/adaptive_limit.hpp"
#include "canigo/circuit_breaker.hpp"
#include "canigo/detail/coro/run_on.hpp"
#include "canigo/hedge_options.hpp"
#include "canigo/limiter.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/request.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace canigo {
class time_source;
struct policy_options;
struct policy_stats;
}  // namespace canigo

namespace canigo::detail {

/// The parts that a policy owns, and what it has counted.
class policy_core {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  policy_core(const net::any_io_executor& executor, const policy_options& options);
  policy_core(const policy_core&) = delete;
  policy_core& operator=(const policy_core&) = delete;
  ~policy_core();

  void stop() noexcept;
  policy_stats stats() const noexcept;
  /// How many places for operations there are now.
  std::size_t places() const;

 private:
  struct account;
  const std::unique_ptr<account> account_;  // before the parts, which refer to what it owns

 public:
  std::optional<circuit_breaker> breaker;
  std::optional<adaptive_limit> adaptive;
  std::optional<limiter> limits;
  const std::string name;
  const std::optional<duration> timeout;
  const std::optional<duration> attempt_timeout;
  const duration blamed_from;  // a call that ends at its deadline with less time for the callee is no sample
  std::optional<hedge_options> hedge;
  std::optional<retry_policy> retry;
  const bool has_places;  // a cap, or an adaptive limit

 private:
  friend class policy_call;
  const std::optional<shared_cap> share_;
};

struct operation_mark;  // the mark of an operation that holds a place, on its executor

/// One call of a policy, from its beginning to its end: its request, its operations, and how it counts.
///
/// Threads: one at a time. Allocates: for an operation if there are places, else never.
class policy_call {
 public:
  policy_call(policy_core& core, const net::any_io_executor& executor, const request& r);
  /// A call that has reported nothing was cancelled.
  ~policy_call();
  policy_call(const policy_call&) = delete;
  policy_call& operator=(const policy_call&) = delete;

  /// The request, with the deadline of the whole call.
  const request& asks() const noexcept { return request_; }
  /// The request for a place, without the fields that only the limits know, such as a flow.
  request asks_place() const noexcept { return {.priority = request_.priority, .deadline = latest_start()}; }
  time_point deadline() const noexcept { return request_.deadline; }
  adaptive_limit* adaptive() const noexcept { return core_.adaptive ? &*core_.adaptive : nullptr; }
  limiter* limits() const noexcept { return core_.limits ? &*core_.limits : nullptr; }
  const std::optional<duration>& attempt_timeout() const noexcept { return core_.attempt_timeout; }

  /// Asks the breaker. Throws circuit_open_error if the breaker refuses the call.
  void enter();

  /// An operation of the call, from its start to its end.
  class operation {
   public:
    operation(policy_call& call, const net::any_io_executor& executor);
    ~operation();
    operation(const operation&) = delete;
    operation& operator=(const operation&) = delete;

    /// Takes the permit. It is given back after the end, once no mark keeps the place.
    void hold(permit p) noexcept;

    /// `op`, on an executor by which a call of the same policy inside of it is recognized.
    template <class T>
    net::awaitable<T> marked(net::awaitable<T> op) {
      if (!mark_) return op;
      return run_on(executor(), std::move(op));
    }

   private:
    net::any_io_executor executor() const;  // the executor with the mark

    policy_call& call_;
    std::shared_ptr<operation_mark> mark_;  // set if there are places
    permit permit_;                         // set if there are no places

   public:
    const std::uint32_t number;  // from 1
  };

  /// The wait for a place. It matters if the call is made inside an operation of the same policy.
  class wait {
   public:
    /// Throws std::system_error, std::errc::resource_deadlock_would_occur, if the operations of all places would wait
    /// for a place.
    explicit wait(policy_call& call);
    ~wait();
    wait(const wait&) = delete;
    wait& operator=(const wait&) = delete;

   private:
    policy_call& call_;
    std::size_t depth_ = 0;  // operations around the call that this holds up
  };

  /// Ends the call: the wait for a place has left too little time for an operation. `e`: how the wait ended.
  [[noreturn]] static void throw_too_late(const std::system_error& e);

  void succeeded() noexcept;
  /// Returns the error for the caller. `is_cancelled`: the caller does not want it any more.
  std::exception_ptr failed(std::exception_ptr error, bool is_cancelled) noexcept;

 private:
  std::uint32_t begin_operation() noexcept;
  void end_operation() noexcept;
  /// The error of a call that has ended at its deadline: its place at that time, and the parts of its time.
  std::exception_ptr late(const std::exception_ptr& error, bool never_started, duration waited) const noexcept;
  /// An operation that starts later has hardly a chance to end before the deadline. At least half of the time that is
  /// left is for the wait.
  time_point latest_start() const noexcept;
  void end(std::uint64_t policy_stats::* outcome) noexcept;

  policy_core& core_;
  const std::shared_ptr<operation_mark> outer_;  // the mark of the operation in which this call is made
  time_source& time_;
  const time_point since_;
  request request_;
  circuit_pass pass_;
  std::uint32_t operations_ = 0;
  std::uint32_t running_ = 0;  // how many operations of the call run
  time_point running_since_{};
  duration had_{};  // time of the callee, in which operations ran
  bool has_ended_ = false;
};

}  // namespace canigo::detail
