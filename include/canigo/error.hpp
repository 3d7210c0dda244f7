#pragma once

#include "canigo/time.hpp"

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace canigo {

/// The types of error codes and of thrown errors: of the standard library with standalone Asio, of Boost.System with
/// Boost.Asio. A program that uses these names compiles with both kinds of Asio.
using error_code = std::error_code;
using system_error = std::system_error;

/// The errors of this library.
///
/// Cancellation has no code here; a cancelled operation ends with Asio's `operation_aborted`. None of these codes
/// compares equal to `std::errc::operation_canceled`, so a check for cancellation finds only real cancellations.
enum class errc {
  /// The queue already holds `queue_limit` waiters. Equals std::errc::resource_unavailable_try_again.
  queue_full = 1,
  /// The request was removed from a full queue to make room for a new one. Equals
  /// std::errc::resource_unavailable_try_again.
  evicted,
  /// The deadline or time limit passed before the operation ended. Equals std::errc::timed_out.
  timed_out,
  /// Even the earliest possible grant is after the deadline, so the request was refused without a wait. Equals
  /// std::errc::timed_out.
  deadline_unreachable,
  /// The object that the operation used was stopped or destroyed.
  stopped,
  /// The priority class is outside 0 … priorities-1. Equals std::errc::invalid_argument.
  invalid_priority,
  /// An argument is out of range. The error message names the field, the value and the range. Equals
  /// std::errc::invalid_argument.
  invalid_argument,
  /// The request needs more tokens or permits than the limit can ever have, or a response exceeds its maximum size.
  /// Equals std::errc::value_too_large.
  too_large,
  /// A lease ended while the operation that it protects was still running.
  lease_lost,
  /// The store behind a shared limit or queue does not answer, so nothing was admitted.
  store_unavailable,
  /// There was no memory for a waiter. Nothing was consumed. Equals std::errc::not_enough_memory.
  not_enough_memory,
  /// A circuit breaker refuses the call, because earlier calls to the callee have failed.
  /// circuit_open_error::open_for() says for how long.
  circuit_open,
  /// The callee reported that it is overloaded. The library itself never throws this code. A user's call throws it, so
  /// that circuit breakers and adaptive limits react to the overload. Equals std::errc::resource_unavailable_try_again.
  overloaded,
  /// The request names a new key, but the keyed limit already has `most_keys` keys. Equals
  /// std::errc::resource_unavailable_try_again.
  too_many_keys,
  /// The limit is overloaded, and ended the request because it had waited too long. Send fewer requests, or retry
  /// later. Equals std::errc::resource_unavailable_try_again.
  shed,
  /// The channel was closed: a send is refused, or a receive finds no value. Equals std::errc::broken_pipe.
  closed,
};

/// The error category of errc; its name is "canigo".
const std::error_category& error_category() noexcept;

/// Converts to `std::error_code`, so that `ec = errc::stopped` and `ec == errc::stopped` compile.
std::error_code make_error_code(errc code) noexcept;

namespace detail {

/// An exception_ptr to std::system_error with the code, or to std::bad_alloc if there is no memory for its text.
std::exception_ptr to_exception(std::error_code code) noexcept;

/// Up to 80 bytes of `text` on one line, with '?' for each unprintable byte.
std::string printable(std::string_view text);

/// An error whose text begins with the place at which the error arose, such as "in the queue of crm".
///
/// If a time limit ends the operation at this place, the text of the timeout error begins with the same place.
class error_at : public std::system_error {
 public:
  error_at(std::error_code code, const std::string& place);
  ~error_at() override;

  std::string_view place() const noexcept { return {what(), size_}; }

 private:
  std::size_t size_;  // the number of bytes at the start of the text that say where the error arose
};

/// Throws std::system_error with the text "field is value; allowed: range".
///
/// A long value is shortened, and '?' replaces each unprintable byte.
[[noreturn]] void throw_invalid(std::string_view field, std::string_view value, std::string_view allowed,
                                errc code = errc::invalid_argument);

/// Like throw_invalid() above, for a time span. The text shows the time span in its largest exact unit.
[[noreturn]] void throw_invalid(std::string_view field, duration value, std::string_view allowed,
                                errc code = errc::invalid_argument);

/// Like throw_invalid() above, for a value that is a number.
template <typename Number>
  requires std::is_arithmetic_v<Number>
[[noreturn]] void throw_invalid(std::string_view field, Number value, std::string_view allowed,
                                errc code = errc::invalid_argument) {
  throw_invalid(field, std::string_view{std::to_string(value)}, allowed, code);
}

}  // namespace detail

/// Whether an exception of a call says that the callee failed. A circuit breaker decides by this function.
///
/// The result is true for all exceptions except those that arose in this program:
/// - Asio's operation_aborted: the caller cancelled the call;
/// - errc::queue_full, evicted, shed, too_many_keys, deadline_unreachable, stopped, closed and circuit_open: a limit, a
///   breaker or a channel of this program refused the call;
/// - errc::invalid_priority, invalid_argument and too_large: the request was invalid, or the answer was too large;
/// - errc::lease_lost, store_unavailable and not_enough_memory, and std::bad_alloc;
/// - std::errc::resource_deadlock_would_occur: the call would have waited for itself.
///
/// errc::timed_out counts as a failure of the callee, even if it came from a limit inside the call whose request had a
/// deadline.
bool is_failure_of_callee(const std::exception_ptr& error) noexcept;

/// Whether an exception of a call says that the callee is overloaded: a timeout, or a reply that reports overload.
///
/// The result is true for errc::timed_out and errc::overloaded, and for codes of other categories that equal
/// std::errc::timed_out or std::errc::resource_unavailable_try_again.
bool is_overload_of_callee(const std::exception_ptr& error) noexcept;

}  // namespace canigo

template <>
struct std::is_error_code_enum<canigo::errc> : std::true_type {};
