#include "canigo/error.hpp"

#include <asio/error.hpp>

#include <new>
#include <system_error>

namespace canigo {

namespace {

bool is_failure_code(const std::error_code& code) noexcept {
  if (code == asio::error::operation_aborted || code == std::errc::resource_deadlock_would_occur) return false;
  if (code.category() != error_category()) return true;
  switch (static_cast<errc>(code.value())) {  // there is no default case, so that the compiler reports a missing code
    case errc::timed_out:
    case errc::overloaded:
      return true;
    case errc::queue_full:
    case errc::evicted:
    case errc::deadline_unreachable:
    case errc::stopped:
    case errc::circuit_open:
    case errc::invalid_priority:
    case errc::invalid_argument:
    case errc::too_large:
    case errc::lease_lost:
    case errc::store_unavailable:
    case errc::not_enough_memory:
    case errc::too_many_keys:
    case errc::shed:
    case errc::closed:
      return false;
  }
  return true;
}

bool is_overload_code(const std::error_code& code) noexcept {
  if (code.category() == error_category()) return code == errc::timed_out || code == errc::overloaded;
  // Asio's error codes do not compare equal to the standard conditions. So `code` is compared with Asio's code, and
  // also with the standard conditions.
  return code == asio::error::timed_out || code == std::errc::timed_out ||
         code == std::errc::resource_unavailable_try_again;
}

/// Returns the result of `f` for the error code of `error`. Returns false if `error` is null or a std::bad_alloc.
/// Returns `otherwise` for any other exception without an error code.
template <class Function>
bool judged(const std::exception_ptr& error, Function f, bool otherwise) noexcept {
  if (error == nullptr) return false;
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& e) {
    return f(e.code());
  } catch (const std::bad_alloc&) {
    return false;
  } catch (...) {
    return otherwise;
  }
}

}  // namespace

bool is_failure_of_callee(const std::exception_ptr& error) noexcept { return judged(error, is_failure_code, true); }

bool is_overload_of_callee(const std::exception_ptr& error) noexcept { return judged(error, is_overload_code, false); }

}  // namespace canigo
