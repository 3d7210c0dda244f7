// What every limit in Redis does alike; nothing of this needs an answer.
#include "canigo/redis/limit_handle.hpp"

#include "canigo/redis/limiter.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/io_context.hpp>

#include <tuple>

namespace limit_handle_tests {

using namespace canigo;
using Catch::Contains;

template <class Limit>
void check_what_it_refuses(Limit& l) {
  CHECK_THAT(refusal_of([&] { std::ignore = l.try_acquire(request{.priority = 2}); }),
             Contains("request.priority") && Contains("2") && Contains("0 to 1"));
  CHECK_THAT(refusal_of([&] { std::ignore = l.try_acquire(request{.tokens = 0}); }),
             Contains("request.tokens") && Contains("0") && Contains("1 or more"));
  CHECK_THAT(refusal_of([&] { std::ignore = l.try_acquire(request{.tokens = 9}); }),
             Contains("request.tokens") && Contains("9") && Contains("1 to 3"));
  CHECK_FALSE(l.try_acquire());
  l.stop();
  CHECK_FALSE(l.try_acquire());
  CHECK(l.stats().rejected == 0);
}

}  // namespace limit_handle_tests

using namespace limit_handle_tests;

TEST_CASE("redis: try_acquire of any limit says what is wrong with a request, and else returns nothing") {
  net::io_context io;
  redis::client client{io, "unix:/nobody/is/here"};
  redis::scheduler quota{client, "a", {.rate = rate::per_second(1), .burst = 3, .priorities = 2}};
  redis::semaphore slots{client, "a", {.permits = 3, .priorities = 2}};
  redis::limiter api{client, "a", {.rates = {{.rate = rate::per_second(1), .burst = 3}}, .priorities = 2}};
  check_what_it_refuses(quota);
  check_what_it_refuses(slots);
  check_what_it_refuses(api);
}
