#include "support/result_kinds.hpp"

#include "canigo/adaptive_limit.hpp"
#include "canigo/cancel.hpp"
#include "canigo/circuit_breaker.hpp"
#include "canigo/detail/coro/repeatable.hpp"
#include "canigo/hedge.hpp"
#include "canigo/limiter.hpp"
#include "canigo/policy.hpp"
#include "canigo/resource_pool.hpp"
#include "canigo/retry.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task_group.hpp"
#include "canigo/timeout.hpp"
#include "canigo/with_limit.hpp"

#include "support/limits_run.hpp"

#include <chrono>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

using namespace canigo;
using namespace std::chrono_literals;

namespace result_kinds_tests {

template <class Make>
using made = detail::result_of_repeatable<std::remove_cvref_t<Make>>;

policy_options with_all_parts() {
  return {.timeout = 1h,
          .breaker = circuit_breaker_options{.failures = 100},
          .hedge = hedge_options{.after = 1h},
          .retry = retry_policy{.attempts = 1},
          .adaptive = adaptive_limit_options{},
          .limits = limiter_options{.concurrency = 8},
          .attempt_timeout = 1h};
}

template <class Make>
net::awaitable<made<Make>> in_a_group(net::io_context* io, Make make) {
  task_group group{*io};
  auto result = group.spawn(make());
  co_await group.join();
  if constexpr (std::is_void_v<made<Make>>) {
    result.get();
  } else {
    co_return std::move(result.get());
  }
}

/// A task keeps its pool's result for all that ask; one that can't be copied has one asker.
template <class Make>
net::awaitable<made<Make>> as_a_task(strand_pool* pool, Make make) {
  auto task = pool->submit(make);
  co_return co_await task.result();
}

}  // namespace result_kinds_tests

using namespace result_kinds_tests;

TEST_CASE("every wrapper hands on every result that can be moved", "[wrappers]") {
  limits_run run;
  cancel_source source;
  semaphore slots{run.io, {.permits = 1}};
  scheduler quota{run.io, {.rate = rate::per_second(1'000'000), .burst = 1'000'000}};
  limiter both{run.io, {.rates = {{rate::per_second(1'000'000), 1'000'000}}, .concurrency = 1}};
  adaptive_limit tuned{run.io, {}};
  circuit_breaker breaker{run.io, {.failures = 100}};
  policy plain{run.io, {}};
  policy in_time{run.io, {.timeout = 1h}};
  policy whole{run.io, with_all_parts()};
  strand_pool pool{run.io, {.concurrency = 1}};
  resource_pool<int> resources{run.io, {.concurrency = 1, .make = [] { return 1; }}};
  retry_budget budget{hedge_budget};
  const auto good = [](const auto&) { return true; };
  task_group rests{run.io};

  const std::tuple rows{
      result_kinds::row{"timeout with_timeout", [&](auto make) { return with_timeout(make(), 1h); }},
      result_kinds::row{"timeout with_deadline", [&](auto make) { return with_deadline(make(), time_point::max()); }},
      result_kinds::row{"cancel wrap", [&](auto make) { return source.wrap(make()); }},
      result_kinds::row{"with_limit with_limit", [&](auto make) { return with_limit(make(), slots); }},
      result_kinds::row{"with_limit with_limit of an adaptive limit",
                        [&](auto make) { return with_limit(make(), tuned); }},
      result_kinds::row{"with_limit with_limits",
                        [&](auto make) { return with_limits(make(), std::tie(slots, both, quota)); }},
      result_kinds::row{"circuit_breaker with_breaker", [&](auto make) { return with_breaker(make(), breaker); }},
      result_kinds::row{"circuit_breaker with_breaker and a judge",
          [&](auto make) {
            if constexpr (std::is_void_v<made<decltype(make)>>) {
              return with_breaker(make(), breaker);  // there is nothing to judge
            } else {
              return with_breaker(make(), breaker, good);
            }
          }},
      result_kinds::row{"hedge hedge", [&](auto make) { return hedge(make, {.after = 1h, .budget = &budget}); }},
      result_kinds::row{"retry retry", [&](auto make) { return retry(make, {.attempts = 1}); }},
      result_kinds::row{"policy run", [&](auto make) { return plain.run(make); }},
      result_kinds::row{"policy run in time", [&](auto make) { return in_time.run(make); }},
      result_kinds::row{"policy run with all parts", [&](auto make) { return whole.run(make); }},
      result_kinds::row{"task_group with_timeout",
                        [&](auto make) { return with_timeout(make(), 1h, abandon_to{rests}); }},
      result_kinds::row{"task_group with_deadline",
                        [&](auto make) { return with_deadline(make(), time_point::max(), abandon_to{rests}); }},
      result_kinds::row{"task_group spawn", [&](auto make) { return in_a_group(&run.io, make); }},
      result_kinds::row{"pool_handle run", [&](auto make) { return pool.run(make); }},
      result_kinds::row{"pool_handle run with a resource",
          [&](auto make) { return resources.run([make](int&) { return make(); }); }},
      result_kinds::row{"pool_handle submit", [&](auto make) { return as_a_task(&pool, make); }},
  };
  const auto until = [&](const auto&) { run.time.run(); };
  std::apply([&](const auto&... each) { (result_kinds::check_kinds(each, run.io, until), ...); }, rows);
}
