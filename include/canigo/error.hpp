#pragma once

#include "canigo/time.hpp"

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace canigo {

/// The types of error codes and of what is thrown. For standalone Asio they are those of the standard library, for
/// Boost.Asio those of Boost.System. A program that uses these names compiles with both.
using error_code = std::error_code;
using system_error = std::system_error;

/// The errors of this library.
///
/// Cancellation does not belong to them: it is always Asio's `operation_aborted`. No code here compares equal to
/// `std::errc::operation_canceled`, so a check for cancellation finds cancellation only.
enum class errc {
  /// The queue holds `queue_limit` waiters already. Equals std::errc::resource_unavailable_try_again.
  queue_full = 1,
  /// Dropped from a full queue to make room for a newcomer. Equals std::errc::resource_unavailable_try_again.
  evicted,
  /// The deadline or timeout passed. Equals std::errc::timed_out.
  timed_out,
  /// The deadline lies before the earliest possible grant, so the request was refused without a wait. Equals
  /// std::errc::timed_out.
  deadline_unreachable,
  /// The object was stopped or destroyed.
  stopped,
  /// The priority class is outside 0 … priorities-1. Equals std::errc::invalid_argument.
  invalid_priority,
  /// An argument is outside its range. The text names the field, the value and the range. Equals
  /// std::errc::invalid_argument.
  invalid_argument,
  /// The request is for more tokens or permits than there can ever be at once, or a response exceeds its bound. Equals
  /// std::errc::value_too_large.
  too_large,
  /// A lease ended while its holder was still at work.
  lease_lost,
  /// The store behind a shared limit or queue does not answer, so nothing was admitted.
  store_unavailable,
  /// There was no memory to wait with. Nothing was consumed. Equals std::errc::not_enough_memory.
  not_enough_memory,
  /// A circuit breaker refuses the call, because the callee fails. circuit_open_error says for how long.
  circuit_open,
  /// The callee said that it has too much to do. No function of the library ends with it: a call that understands such
  /// an answer throws it, to tell breakers and adaptive limits. Equals std::errc::resource_unavailable_try_again.
  overloaded,
  /// A keyed limit knows `most_keys` keys already, and the request names another one. Equals
  /// std::errc::resource_unavailable_try_again.
  too_many_keys,
  /// The request was ended because the limit is overloaded and the request has waited too long. Call less often, or
  /// later. Equals std::errc::resource_unavailable_try_again.
  shed,
  /// The channel was closed: it takes no value any more, and has none left. Equals std::errc::broken_pipe.
  closed,
};

/// The category "canigo".
const std::error_category& error_category() noexcept;

/// The code as `std::error_code`, so that `ec = errc::stopped` and `ec == errc::stopped` work.
std::error_code make_error_code(errc code) noexcept;

namespace detail {

/// std::system_error with the code; std::bad_alloc if there is no memory for its text.
std::exception_ptr to_exception(std::error_code code) noexcept;

/// Up to 80 bytes of `text`, on one line, with '?' for bytes that a terminal would not show.
std::string printable(std::string_view text);

/// An error that says where it arose, such as "in the queue of crm". Its text begins with that.
///
/// A time limit that ends an operation takes this place over into its own error. So the text of that error says where
/// the operation was.
class error_at : public std::system_error {
 public:
  error_at(std::error_code code, const std::string& place);
  ~error_at() override;

  std::string_view place() const noexcept { return {what(), size_}; }

 private:
  std::size_t size_;  // the size of the place, at the beginning of the text
};

/// Throws std::system_error with the text "field is value; allowed: range".
///
/// It shortens a long value, and writes '?' for bytes that a terminal would not show.
[[noreturn]] void throw_invalid(std::string_view field, std::string_view value, std::string_view allowed,
                                errc code = errc::invalid_argument);

/// Like throw_invalid() above, for a time span, which it writes in its largest exact unit.
[[noreturn]] void throw_invalid(std::string_view field, duration value, std::string_view allowed,
                                errc code = errc::invalid_argument);

/// Like throw_invalid() above, for a number.
template <typename Number>
  requires std::is_arithmetic_v<Number>
[[noreturn]] void throw_invalid(std::string_view field, Number value, std::string_view allowed,
                                errc code = errc::invalid_argument) {
  throw_invalid(field, std::string_view{std::to_string(value)}, allowed, code);
}

}  // namespace detail

/// Whether an error of a call says something about the callee. A circuit breaker judges by it.
///
/// Every error does, except these, by which the call ended on this side:
/// - Asio's operation_aborted: the caller cancelled the call;
/// - errc::queue_full, evicted, shed, too_many_keys, deadline_unreachable, stopped, closed and circuit_open: a limit, a
///   breaker or a channel of this program refused it;
/// - errc::invalid_priority, invalid_argument and too_large: the request or the answer was not as it should be;
/// - errc::lease_lost, store_unavailable and not_enough_memory, and std::bad_alloc;
/// - std::errc::resource_deadlock_would_occur: the call would have waited for itself.
///
/// errc::timed_out is a failure. If a limit inside the call has a deadline, its timeout counts, too.
bool is_failure_of_callee(const std::exception_ptr& error) noexcept;

/// Whether an error of a call says that the callee has too much to do: a timeout, or an answer that says so.
///
/// These do: errc::timed_out and errc::overloaded; in other categories the codes that equal std::errc::timed_out or
/// std::errc::resource_unavailable_try_again.
bool is_overload_of_callee(const std::exception_ptr& error) noexcept;

}  // namespace canigo

template <>
struct std::is_error_code_enum<canigo::errc> : std::true_type {};
