#include "canigo/detail/pool/attempt_end.hpp"

#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include "support/catch.hpp"

#include <asio/error.hpp>

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <system_error>

using namespace canigo;
using canigo::detail::attempt_end;
using canigo::detail::task_life;
using cause = task_life::cause;

namespace attempt_end_test {

/// The first of several attempts.
struct first_of : task_life {
  explicit first_of(std::uint32_t all) {
    retry.attempts = all;
    begin_attempt(time_point{});
  }
};

template <class Exception>
attempt_end thrown(const Exception& e, cause c, const restart_policy& restart, const task_life* life) {
  attempt_end end;
  try {
    throw e;
  } catch (...) {
    end.caught(c);
  }
  end.weigh(restart, life);
  return end;
}

}  // namespace attempt_end_test

using attempt_end_test::first_of;
using attempt_end_test::thrown;

TEST_CASE("an operation that returns is neither fatal nor tried again", "[attempt_end]") {
  const first_of life{2};
  attempt_end end;
  end.is_fatal = end.may_retry = true;
  end.weigh({}, &life);
  CHECK_FALSE(end.is_fatal);
  CHECK_FALSE(end.may_retry);
}

TEST_CASE("a failure is tried again as long as there are attempts", "[attempt_end]") {
  const first_of one{1}, two{2};
  const std::runtime_error e{"failed"};
  CHECK(thrown(e, cause::none, {}, &two).may_retry);
  CHECK(thrown(e, cause::time, {}, &two).may_retry);
  CHECK_FALSE(thrown(e, cause::none, {}, &one).may_retry);
  CHECK_FALSE(thrown(e, cause::none, {}, nullptr).may_retry);
  CHECK_FALSE(thrown(e, cause::owner, {}, &two).may_retry);
  CHECK_FALSE(thrown(e, cause::stop, {}, &two).may_retry);
}

TEST_CASE("an operation that cancels itself is not tried again, unless its time was up", "[attempt_end]") {
  const first_of life{2};
  const std::system_error aborted{canigo::net::error::operation_aborted};
  CHECK_FALSE(thrown(aborted, cause::none, {}, &life).may_retry);
  CHECK(thrown(aborted, cause::time, {}, &life).may_retry);
}

TEST_CASE("a predicate sees the error, or that the time was up, and decides", "[attempt_end]") {
  first_of life{2};
  life.retry.retry_if = [](const std::exception_ptr& e) {
    try {
      std::rethrow_exception(e);
    } catch (const std::system_error& s) {
      return s.code() == canigo::errc::timed_out;
    }
  };
  CHECK(thrown(std::system_error{canigo::net::error::operation_aborted}, cause::time, {}, &life).may_retry);
  CHECK_FALSE(thrown(std::system_error{canigo::net::error::operation_aborted}, cause::none, {}, &life).may_retry);
  CHECK_FALSE(thrown(std::runtime_error{"the predicate fails"}, cause::none, {}, &life).may_retry);
}

TEST_CASE("a fatal error breaks the worker, or what the policy calls fatal", "[attempt_end]") {
  const restart_policy by_predicate{.is_fatal = [](const std::exception_ptr& e) {
    try {
      std::rethrow_exception(e);
    } catch (const std::logic_error&) {
      return true;
    } catch (...) {
      return false;
    }
  }};
  CHECK(thrown(fatal_error{"broken"}, cause::none, {}, nullptr).is_fatal);
  CHECK_FALSE(thrown(std::logic_error{"wrong"}, cause::none, {}, nullptr).is_fatal);
  CHECK(thrown(std::logic_error{"wrong"}, cause::none, by_predicate, nullptr).is_fatal);
  CHECK_FALSE(thrown(fatal_error{"broken"}, cause::none, by_predicate, nullptr).is_fatal);
}

TEST_CASE("the exception of an operation is taken out once", "[attempt_end]") {
  auto end = thrown(1, cause::time, {}, nullptr);
  CHECK(end.cause == cause::time);
  CHECK(end.take_error());
  CHECK_FALSE(end.error);
}
