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

/// The parts of a policy, such as its circuit breaker and its limits, and the policy's statistics.
class policy_core {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  policy_core(const net::any_io_executor& executor, const policy_options& options);
  policy_core(const policy_core&) = delete;
  policy_core& operator=(const policy_core&) = delete;
  ~policy_core();

  void stop() noexcept;
  policy_stats stats() const noexcept;
  /// The current number of slots for operations.
  std::size_t places() const;

 private:
  struct account;
  const std::unique_ptr<account> account_;  // declared first, because the parts below refer to objects in the account

 public:
  std::optional<circuit_breaker> breaker;
  std::optional<adaptive_limit> adaptive;
  std::optional<limiter> limits;
  const std::string name;
  const std::optional<duration> timeout;
  const std::optional<duration> attempt_timeout;
  // If a call reaches its deadline, it counts as a failure only if its operations ran for at least this time.
  const duration blamed_from;
  std::optional<hedge_options> hedge;
  std::optional<retry_policy> retry;
  const bool has_places;  // whether an operation needs a slot, because the policy has a cap or an adaptive limit

 private:
  friend class policy_call;
  const std::optional<shared_cap> share_;
};

struct operation_mark;  // marks the executor of an operation that holds a slot

/// One call of a policy, from its beginning to its end: its request, its operations, and its result for the statistics.
///
/// Threads: one thread at a time. Allocates: for each operation if the policy has slots, otherwise never.
class policy_call {
 public:
  policy_call(policy_core& core, const net::any_io_executor& executor, const request& r);
  /// If neither succeeded() nor failed() was called, the call counts as cancelled.
  ~policy_call();
  policy_call(const policy_call&) = delete;
  policy_call& operator=(const policy_call&) = delete;

  /// The request, with the deadline of the whole call.
  const request& asks() const noexcept { return request_; }
  /// The request for a slot of the adaptive limit. It does not contain the fields that only a limiter uses, such as a
  /// flow.
  request asks_place() const noexcept { return {.priority = request_.priority, .deadline = latest_start()}; }
  time_point deadline() const noexcept { return request_.deadline; }
  adaptive_limit* adaptive() const noexcept { return core_.adaptive ? &*core_.adaptive : nullptr; }
  limiter* limits() const noexcept { return core_.limits ? &*core_.limits : nullptr; }
  const std::optional<duration>& attempt_timeout() const noexcept { return core_.attempt_timeout; }

  /// Asks the circuit breaker, if there is one. Throws circuit_open_error if the breaker refuses the call.
  void enter();

  /// One operation of the call, such as an attempt. The constructor notes its start, and the destructor its end.
  class operation {
   public:
    operation(policy_call& call, const net::any_io_executor& executor);
    ~operation();
    operation(const operation&) = delete;
    operation& operator=(const operation&) = delete;

    /// Stores the permit of the operation. The permit is released when the operation and all other work that keeps the
    /// operation's slot have ended.
    void hold(permit p) noexcept;

    /// Returns an awaitable that runs `op` on an executor with the operation's mark. If `op` calls the same policy
    /// again, this mark shows that the call is nested.
    template <class T>
    net::awaitable<T> marked(net::awaitable<T> op) {
      if (!mark_) return op;
      return run_on(executor(), std::move(op));
    }

   private:
    net::any_io_executor executor() const;  // the executor on which the operation runs; it carries mark_

    policy_call& call_;
    std::shared_ptr<operation_mark> mark_;  // the mark of the operation; set if the policy has slots
    permit permit_;                         // the permit of the operation; set if the policy has no slots

   public:
    const std::uint32_t number;  // the number of the operation in its call, from 1
  };

  /// The wait of a call for a slot. Waits of calls that are made inside an operation of the same policy are counted, so
  /// that a deadlock is detected.
  class wait {
   public:
    /// Throws std::system_error (std::errc::resource_deadlock_would_occur) if this wait would be a deadlock: every slot
    /// would then be held by an operation that itself waits for a slot.
    explicit wait(policy_call& call);
    ~wait();
    wait(const wait&) = delete;
    wait& operator=(const wait&) = delete;

   private:
    policy_call& call_;
    std::size_t depth_ = 0;  // the number of nested operations of the policy inside which the waiting call is made
  };

  /// Throws the error of a call that waited for a slot until too little time was left for an operation. `e`: the error
  /// of the wait.
  [[noreturn]] static void throw_too_late(const std::system_error& e);

  void succeeded() noexcept;
  /// Ends the call with `error`, and returns the error for the caller. `is_cancelled`: whether the caller has cancelled
  /// the call.
  std::exception_ptr failed(std::exception_ptr error, bool is_cancelled) noexcept;

 private:
  std::uint32_t begin_operation() noexcept;
  void end_operation() noexcept;
  /// Returns the error of a call that reached its deadline. The text of the error says how long the call waited, how
  /// long its operations ran, and, if known, during which wait the call ended.
  std::exception_ptr late(const std::exception_ptr& error, bool never_started, duration waited) const noexcept;
  /// The latest instant at which an operation may start: the deadline minus twice the adaptive limit's latency. So the
  /// operation can end in time. But the call may always wait for at least half of the time until the deadline.
  time_point latest_start() const noexcept;
  void end(std::uint64_t policy_stats::* outcome) noexcept;

  policy_core& core_;
  const std::shared_ptr<operation_mark> outer_;  // the mark of the operation inside which this call is made, if any
  time_source& time_;
  const time_point since_;
  request request_;
  circuit_pass pass_;
  std::uint32_t operations_ = 0;
  std::uint32_t running_ = 0;  // number of running operations of the call
  time_point running_since_{};
  duration had_{};  // the time during which operations of this call ran
  bool has_ended_ = false;
};

}  // namespace canigo::detail
