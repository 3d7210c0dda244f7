#include "canigo/error.hpp"

#include "support/catch.hpp"

#include <asio/error.hpp>

#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

using namespace canigo;

namespace {

template <class Error>
std::exception_ptr thrown_error(Error e) {
  return std::make_exception_ptr(e);
}

std::exception_ptr thrown_code(std::error_code code) { return thrown_error(std::system_error{code}); }

}  // namespace

TEST_CASE("errors of the callee are failures, and those by which a call ended on this side are not") {
  CHECK(is_failure_of_callee(thrown_error(std::runtime_error{"broken"})));
  CHECK(is_failure_of_callee(thrown_error(42)));
  CHECK(is_failure_of_callee(thrown_code(asio::error::connection_refused)));
  CHECK(is_failure_of_callee(thrown_code(errc::timed_out)));
  CHECK(is_failure_of_callee(thrown_code(errc::overloaded)));
  CHECK_FALSE(is_failure_of_callee(nullptr));
  CHECK_FALSE(is_failure_of_callee(thrown_code(asio::error::operation_aborted)));
  CHECK_FALSE(is_failure_of_callee(thrown_code(std::make_error_code(std::errc::resource_deadlock_would_occur))));
  CHECK_FALSE(is_failure_of_callee(thrown_error(std::bad_alloc{})));
  for (const errc code :
       {errc::queue_full, errc::evicted, errc::deadline_unreachable, errc::stopped, errc::circuit_open,
        errc::invalid_priority, errc::invalid_argument, errc::too_large, errc::lease_lost, errc::store_unavailable,
        errc::not_enough_memory, errc::too_many_keys, errc::shed, errc::closed}) {
    CHECK_FALSE(is_failure_of_callee(thrown_code(code)));
    CHECK_FALSE(is_overload_of_callee(thrown_code(code)));
  }
}

TEST_CASE("timeouts, and answers that say so, mean that the callee has too much to do") {
  CHECK(is_overload_of_callee(thrown_code(errc::timed_out)));
  CHECK(is_overload_of_callee(thrown_code(errc::overloaded)));
  CHECK(is_overload_of_callee(thrown_code(asio::error::timed_out)));
  CHECK(is_overload_of_callee(thrown_code(std::make_error_code(std::errc::resource_unavailable_try_again))));
  CHECK_FALSE(is_overload_of_callee(nullptr));
  CHECK_FALSE(is_overload_of_callee(thrown_code(asio::error::connection_refused)));
  CHECK_FALSE(is_overload_of_callee(thrown_code(asio::error::operation_aborted)));
  CHECK_FALSE(is_overload_of_callee(thrown_error(std::runtime_error{"broken"})));
  CHECK_FALSE(is_overload_of_callee(thrown_error(std::bad_alloc{})));
}
