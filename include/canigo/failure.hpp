#pragma once

#include <exception>

namespace canigo {

/// Whether an error of a call says something about the callee. A circuit breaker judges by it.
///
/// Every error does, except these, by which the call ended on this side:
/// - Asio's operation_aborted: the caller did not want it any more;
/// - errc::queue_full, evicted, shed, too_many_keys, deadline_unreachable, stopped and circuit_open: a limit or a
///   breaker of this program refused it;
/// - errc::invalid_priority, invalid_argument and too_large: the request or the answer was not as it should be;
/// - errc::lease_lost, store_unavailable and not_enough_memory, and std::bad_alloc;
/// - std::errc::resource_deadlock_would_occur: the call would have waited for itself.
///
/// errc::timed_out is a failure. Where a limit inside the call has a deadline, its timeout counts, too.
bool is_failure_of_callee(const std::exception_ptr& error) noexcept;

/// Whether an error of a call says that the callee has too much to do: a timeout, or an answer that says so.
///
/// These do: errc::timed_out and errc::overloaded; in other categories the codes that equal std::errc::timed_out or
/// std::errc::resource_unavailable_try_again.
bool is_overload_of_callee(const std::exception_ptr& error) noexcept;

}  // namespace canigo
