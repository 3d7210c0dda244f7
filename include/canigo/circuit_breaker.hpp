#pragma once

#include "canigo/algorithms/circuit.hpp"
#include "canigo/detail/coro/named_first.hpp"
#include "canigo/limit_options.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/this_coro.hpp>

#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace canigo {

namespace detail {
class breaker_core;
}

struct circuit_breaker_stats {
  circuit_state state = circuit_state::closed;
  duration open_for{};        ///< min time for which calls are still refused; max() after force_open()
  circuit::tally counted{};   ///< calls in the current window; while half-open: probes that have reported
  std::uint64_t changes = 0;  ///< number of changes of the state
  // All counters below count from the construction of the breaker.
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t slow = 0;  ///< slow calls; `succeeded` or `failed` counts them, too
  /// calls that were cancelled, or ended with an error that says nothing about the callee
  std::uint64_t unreported = 0;
  std::uint64_t refused = 0;
  std::uint64_t would_refuse = 0;  ///< calls that the open breaker let pass in shadow mode
  std::uint64_t opened = 0;        ///< how often failures opened the breaker; force_open() does not count
};

/// The error of a call that a circuit breaker refuses: errc::circuit_open. open_for() returns for how long the breaker
/// refuses more calls.
class circuit_open_error : public std::system_error {
 public:
  /// `name` is the name of the breaker; it may be empty.
  explicit circuit_open_error(duration open_for, const std::string& name = {});

  /// The min time for which the breaker refuses calls, counted from this refusal. 0 while probes are under way; max()
  /// after force_open().
  duration open_for() const noexcept { return open_for_; }

 private:
  duration open_for_;
};

/// Permission of a circuit breaker for one call. The caller uses it once, to report how the call ended.
///
/// If the pass is destroyed without a report, the breaker does not count the call. If that call was a probe, another
/// call may become a probe. The pass may outlive its breaker and the execution context.
/// Threads: one thread at a time may use a pass. Allocates: never.
class [[nodiscard]] circuit_pass {
 public:
  circuit_pass() noexcept = default;
  circuit_pass(circuit_pass&& other) noexcept
      : core_{std::exchange(other.core_, nullptr)}, epoch_{other.epoch_}, since_{other.since_} {}
  circuit_pass& operator=(circuit_pass&& other) noexcept {
    circuit_pass taken{std::move(other)};
    std::swap(core_, taken.core_);
    std::swap(epoch_, taken.epoch_);
    std::swap(since_, taken.since_);
    return *this;
  }
  ~circuit_pass() {
    if (core_ != nullptr) leave();
  }

  /// succeeded(), failed() and failed_with() report how the call ended and how long it took until now. Afterwards the
  /// pass is empty, and these members do nothing.
  void succeeded() noexcept;
  void failed() noexcept;
  /// Reports that the call ended with `error`. The option `failed_if` decides whether that is a failure; if not, the
  /// breaker does not count the call.
  void failed_with(const std::exception_ptr& error);

  /// Restarts the measurement of the call's duration now. Use it if the caller has waited for something else since
  /// enter().
  void begin() noexcept;

  explicit operator bool() const noexcept { return core_ != nullptr; }

 private:
  friend class circuit_breaker;
  circuit_pass(detail::breaker_core& core, circuit::epoch epoch, time_point since) noexcept
      : core_{&core}, epoch_{epoch}, since_{since} {}
  void leave() noexcept;  // ends the pass without a report

  detail::breaker_core* core_ = nullptr;  // a counted reference, which the pass releases
  circuit::epoch epoch_ = 0;
  time_point since_{};
};

/// Refuses calls immediately while the callee fails, and lets a few probes through from time to time:
/// `with_breaker(call(), b)`.
///
/// canigo::circuit makes the decisions: closed, open or half-open. The breaker has no timer and lets no call wait. An
/// open breaker becomes half-open at the first call after `open_for`.
///
/// Give each call a time limit inside the breaker, `with_breaker(with_timeout(call(), 2s), b)`. A time limit outside
/// the breaker cancels the call, and the breaker does not count cancelled calls. A probe that never ends keeps other
/// probes out forever.
///
/// Threads: any thread may call any member at any time. Allocates: in the constructor, and the error of a refused call.
/// Lifetime: a pass keeps the state of its breaker alive; the execution context may be destroyed first.
class circuit_breaker {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  circuit_breaker(const net::any_io_executor& executor, const circuit_breaker_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  circuit_breaker(ExecutionContext& context, const circuit_breaker_options& options)
      : circuit_breaker{net::any_io_executor{context.get_executor()}, options} {}
  ~circuit_breaker();
  circuit_breaker(const circuit_breaker&) = delete;
  circuit_breaker& operator=(const circuit_breaker&) = delete;

  /// Returns a pass for one call. Throws circuit_open_error if the breaker refuses the call.
  circuit_pass enter();
  /// Like enter(), but returns std::nullopt instead of throwing if the breaker refuses the call.
  [[nodiscard]] std::optional<circuit_pass> try_enter() noexcept;

  /// Refuses all calls until force_closed() or reset().
  void force_open() noexcept;
  /// Lets all calls pass and counts none of them, until force_open() or reset().
  void force_closed() noexcept;
  /// Closes the breaker and clears its window. Calls under way no longer count.
  void reset() noexcept;
  /// Switches shadow mode on or off. In shadow mode the breaker lets all calls pass, and
  /// `would_refuse` counts the calls that it would otherwise refuse.
  void set_mode(enforcement mode);

  circuit_state state() const noexcept;
  circuit_breaker_stats stats() const noexcept;

 private:
  detail::breaker_core* core_;
};

namespace detail {

/// The default judge of results in with_breaker(): every result is a success.
struct any_result {
  constexpr bool operator()(const auto&...) const noexcept { return true; }
};

template <class T, class Judge>
net::awaitable<T> run_through(net::awaitable<T> op, circuit_breaker* breaker, Judge judge) {
  circuit_pass pass = breaker->enter();
  std::exception_ptr error;
  try {
    if constexpr (std::is_void_v<T>) {
      co_await std::move(op);
      pass.succeeded();
      co_return;
    } else {
      T result = co_await std::move(op);
      std::invoke(judge, std::as_const(result)) ? pass.succeeded() : pass.failed();
      co_return result;
    }
  } catch (...) {
    error = std::current_exception();
  }
  const net::cancellation_state cancelled = co_await net::this_coro::cancellation_state;
  if (cancelled.cancelled() == net::cancellation_type::none) pass.failed_with(error);
  std::rethrow_exception(error);
}

}  // namespace detail

/// Runs `op` through the breaker: `auto rows = co_await with_breaker(query(), b)`.
///
/// If the breaker refuses the call, `op` does not start. A result is a success. An exception is a failure if the option
/// `failed_if` says so. A cancelled call counts only if it still has a result.
///
/// Errors: circuit_open_error, which is errc::circuit_open; all errors of `op`.
/// Cancellation: passed on to `op`.
/// Completes on the awaiting coroutine's executor. Allocates: its coroutine frame, which Asio recycles, and the error
/// of a refused call.
template <class T>
net::awaitable<T> with_breaker(net::awaitable<T> op, circuit_breaker& breaker) {
  return detail::run_through(std::move(op), &breaker, detail::any_result{});
}

/// Like with_breaker(op, breaker), with a function that judges the result: `with_breaker(get(url), b, [](const reply&
/// r) { return r.status < 500; })`. `judge` returns true if the result is a success. An exception of `judge` counts as
/// an error of the call.
template <class T, class Judge>
  requires std::predicate<std::decay_t<Judge>&, const T&>
detail::named_first<Judge, T> with_breaker(net::awaitable<T> op, circuit_breaker& breaker, Judge&& judge) {
  return detail::named_first<Judge, T>{
      detail::run_through(std::move(op), &breaker, std::decay_t<Judge>(std::forward<Judge>(judge)))};
}

}  // namespace canigo
