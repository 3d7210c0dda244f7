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
  duration open_for{};        ///< calls are refused for at least so long from now; max() if that was forced
  circuit::tally counted{};   ///< just now: the calls of the window, or the probes that have reported
  std::uint64_t changes = 0;  ///< how often the state has changed
  // Since the breaker was made:
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t slow = 0;        ///< how many of the calls above were slow
  std::uint64_t unreported = 0;  ///< cancelled, or ended by something else that says nothing about the callee
  std::uint64_t refused = 0;
  std::uint64_t would_refuse = 0;  ///< calls that went in shadow mode although it was open
  std::uint64_t opened = 0;        ///< how often it opened by itself, not by force_open()
};

/// The error of a call that a circuit breaker refuses: errc::circuit_open, with the time for which more calls are
/// refused.
class circuit_open_error : public std::system_error {
 public:
  /// `name`: the name of the breaker, or empty.
  explicit circuit_open_error(duration open_for, const std::string& name = {});

  /// Calls are refused for at least so long from now. 0 if probes are under way; max() if it was forced open.
  duration open_for() const noexcept { return open_for_; }

 private:
  duration open_for_;
};

/// A call that a circuit breaker has let go. It reports how it ended, once.
///
/// If it is destroyed without a report, the call is no sample. If it was a probe, another call may be one.
/// It may outlive its breaker and the execution context.
/// Threads: one at a time. Allocates: never.
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

  /// Each of these reports how the call has ended, and how long it took until now. Afterwards the pass is empty, and
  /// these members do nothing.
  void succeeded() noexcept;
  void failed() noexcept;
  /// Reports an error, which `failed_if` of the options judges. If that says no, the call is no sample.
  void failed_with(const std::exception_ptr& error);

  /// Says that the call begins only now: how long it takes counts from here. Use it if the call has waited for
  /// something else.
  void begin() noexcept;

  explicit operator bool() const noexcept { return core_ != nullptr; }

 private:
  friend class circuit_breaker;
  circuit_pass(detail::breaker_core& core, circuit::epoch epoch, time_point since) noexcept
      : core_{&core}, epoch_{epoch}, since_{since} {}
  void leave() noexcept;  // without a report

  detail::breaker_core* core_ = nullptr;  // holds a reference
  circuit::epoch epoch_ = 0;
  time_point since_{};
};

/// Refuses calls at once while the callee fails, and tries from time to time whether it works again:
/// `with_breaker(call(), b)`.
///
/// Its decisions are those of canigo::circuit: closed, open, half-open. Nothing waits here and no timer runs: an open
/// breaker becomes half-open when a call comes after `open_for`.
///
/// Give each call a time limit inside of the breaker, `with_breaker(with_timeout(call(), 2s), b)`. A time limit outside
/// of the breaker cancels the call, and a cancelled call is no sample. A probe that never ends holds its place for
/// ever.
///
/// Threads: any, all members, at once. Allocates: in the constructor, and the error of a refused call.
/// Lifetime: calls that are under way keep what they need; the execution context may be destroyed first.
class circuit_breaker {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  circuit_breaker(const net::any_io_executor& executor, const circuit_breaker_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  circuit_breaker(ExecutionContext& context, const circuit_breaker_options& options)
      : circuit_breaker{net::any_io_executor{context.get_executor()}, options} {}
  ~circuit_breaker();
  circuit_breaker(const circuit_breaker&) = delete;
  circuit_breaker& operator=(const circuit_breaker&) = delete;

  /// Lets a call go. Throws circuit_open_error if it is refused.
  circuit_pass enter();
  /// Like enter(), without an exception: returns nothing if the call is refused.
  [[nodiscard]] std::optional<circuit_pass> try_enter() noexcept;

  /// Refuses all calls, until force_closed() or reset().
  void force_open() noexcept;
  /// Lets all calls go and counts none, until force_open() or reset().
  void force_closed() noexcept;
  /// Begins again: closed, with an empty window. Calls that are under way do not count.
  void reset() noexcept;
  /// In shadow mode all calls go, and `would_refuse` counts.
  void set_mode(enforcement mode);

  circuit_state state() const noexcept;
  circuit_breaker_stats stats() const noexcept;

 private:
  detail::breaker_core* core_;
};

namespace detail {

/// Judges every result a success.
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
/// If the breaker refuses, `op` does not start. A result is a success. An error is a failure if `failed_if` of the
/// options says so. A cancelled call is no sample, however it ends, unless it has a result.
///
/// Errors: circuit_open_error, which is errc::circuit_open; all of `op`.
/// Cancellation: passed on to `op`.
/// Completes on the awaiting coroutine's executor. Allocates: its coroutine frame, which Asio recycles, and the error
/// of a refused call.
template <class T>
net::awaitable<T> with_breaker(net::awaitable<T> op, circuit_breaker& breaker) {
  return detail::run_through(std::move(op), &breaker, detail::any_result{});
}

/// Like with_breaker(op, breaker), for a result that may be a failure: `with_breaker(get(url), b, [](const reply& r) {
/// return r.status < 500; })`. `judge` says whether it is a success. An exception of `judge` counts as an error of the
/// call.
template <class T, class Judge>
  requires std::predicate<std::decay_t<Judge>&, const T&>
detail::named_first<Judge, T> with_breaker(net::awaitable<T> op, circuit_breaker& breaker, Judge&& judge) {
  return detail::named_first<Judge, T>{
      detail::run_through(std::move(op), &breaker, std::decay_t<Judge>(std::forward<Judge>(judge)))};
}

}  // namespace canigo
