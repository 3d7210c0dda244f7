#include "canigo/detail/coro/end_request.hpp"

#include "support/catch.hpp"

namespace end_request_test {

using canigo::detail::end_request;
using type = canigo::net::cancellation_type;

TEST_CASE("the first request to end decides", "[end_request]") {
  end_request nobody;
  CHECK_FALSE(nobody.is_of_owner());

  end_request owner;
  owner.by_owner();
  owner.by_cancellation(type::terminal);
  CHECK(owner.is_of_owner());

  end_request other;
  other.by_cancellation(type::terminal);
  other.by_owner();
  CHECK_FALSE(other.is_of_owner());
}

TEST_CASE("a cancellation that is not terminal is no request to end", "[end_request]") {
  end_request r;
  r.by_cancellation(type::partial | type::total);
  r.by_owner();
  CHECK(r.is_of_owner());

  end_request all;
  all.by_cancellation(type::all);
  all.by_owner();
  CHECK_FALSE(all.is_of_owner());
}

}  // namespace end_request_test
