// Every check of an option or an argument, with all of its text: what is refused names its struct or member, the field,
// the value and the range.
#include "support/refusal.hpp"

#include "canigo/adaptive_limit.hpp"
#include "canigo/algorithms/circuit.hpp"
#include "canigo/algorithms/latency_window.hpp"
#include "canigo/flow.hpp"
#include "canigo/hedge_options.hpp"
#include "canigo/keyed.hpp"
#include "canigo/limiter.hpp"
#include "canigo/loop_lag.hpp"
#include "canigo/policy.hpp"
#include "canigo/resource_pool.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"

#include "support/timeout_rule.hpp"

#include <asio/io_context.hpp>

#include <cstdint>
#include <string>

using namespace std::chrono_literals;
using namespace canigo;

namespace {

constexpr auto overflows = "reject_new, evict_oldest, evict_least_important";

template <class Limit, class Options>
std::string refused(const Options& o) {
  net::io_context io;
  const std::string text = refusal([&] { Limit{io, o}; });
  return text.substr(0, text.rfind(": invalid argument"));
}

std::string refused_call(auto call) {
  const std::string text = refusal(call);
  return text.substr(0, text.rfind(": invalid argument"));
}

}  // namespace

TEST_CASE("what a scheduler refuses names the field of its options") {
  const rate r = rate::per_second(5);
  const auto text = [](const scheduler_options& o) { return refused<scheduler>(o); };
  CHECK(text({.rate = r, .burst = 0}) == "scheduler_options.burst is 0; allowed: 1 to 2^62");
  CHECK(text({.rate = r, .initial_tokens = 2}) ==
        "scheduler_options.initial_tokens is 2; allowed: 0 to the burst of 1");
  CHECK(text({.rate = r, .priorities = 0}) == "scheduler_options.priorities is 0; allowed: 1 to 1024");
  CHECK(text({.rate = r, .queue_limit = 0}) == "scheduler_options.queue_limit is 0; allowed: 1 or more");
  CHECK(text({.rate = r, .on_overflow = overflow::wait}) ==
        std::string{"scheduler_options.on_overflow is wait; allowed: "} + overflows);
  CHECK(text({.rate = r, .ageing = 0s}) == "scheduler_options.ageing is 0s; allowed: more than 0");

  net::io_context io;
  scheduler s{io, {.rate = r}};
  CHECK(refused_call([&] { s.set_burst(0); }) == "scheduler.set_burst: burst is 0; allowed: 1 to 2^62");
  CHECK(refused_call([&] { (void)s.try_acquire({.tokens = 0}); }) == "request.tokens is 0; allowed: 1 or more");
}

TEST_CASE("what a semaphore refuses names the field of its options") {
  const auto text = [](const semaphore_options& o) { return refused<semaphore>(o); };
  CHECK(text({.permits = 0}) == "semaphore_options.permits is 0; allowed: 1 to 2^62");
  CHECK(text({.priorities = 0}) == "semaphore_options.priorities is 0; allowed: 1 to 1024");
  CHECK(text({.queue_limit = 0}) == "semaphore_options.queue_limit is 0; allowed: 1 or more");
  CHECK(text({.on_overflow = overflow::wait}) ==
        std::string{"semaphore_options.on_overflow is wait; allowed: "} + overflows);
  CHECK(text({.ageing = 0s}) == "semaphore_options.ageing is 0s; allowed: more than 0");

  net::io_context io;
  semaphore s{io, {.permits = 3}};
  CHECK(refused_call([&] { s.resize(0); }) == "semaphore.resize: permits is 0; allowed: 1 to 2^62");
  auto p = s.try_acquire({.tokens = 3});
  CHECK(refused_call([&] { (void)p->split(4); }) == "permit.split: places is 4; allowed: 1 to held(), which is 3");
}

TEST_CASE("what a limiter refuses names the field of its options, and which of the rates") {
  const rate r = rate::per_second(5);
  const auto text = [](const limiter_options& o) { return refused<limiter>(o); };
  CHECK(text({.rates = {{.rate = r}, {.rate = r, .burst = 0}}}) ==
        "limiter_options.rates[1].burst is 0; allowed: 1 to 2^62");
  CHECK(text({.rates = {{.rate = r, .burst = 2, .initial_tokens = 3}}}) ==
        "limiter_options.rates[0].initial_tokens is 3; allowed: 0 to the burst of 2");
  CHECK(text({.rates = {17, {.rate = r}}}) == "limiter_options.rates.size() is 17; allowed: 0 to 16");
  CHECK(text({}).find("limiter_options.rates.size() is 0; allowed: 1 to 16, or 0 with a concurrency") == 0);
  CHECK(text({.concurrency = 0}) == "limiter_options.concurrency is 0; allowed: 1 or more");
  CHECK(text({.concurrency = 1, .priorities = 0}) == "limiter_options.priorities is 0; allowed: 1 to 1024");
  CHECK(text({.concurrency = 1, .queue_limit = 0}) == "limiter_options.queue_limit is 0; allowed: 1 or more");
  CHECK(text({.concurrency = 1, .ageing = 0s}) == "limiter_options.ageing is 0s; allowed: more than 0");

  net::io_context io;
  limiter l{io, {.rates = {{.rate = r}}}};
  CHECK(refused_call([&] { l.set_rate(1, r); }) == "limiter.set_rate: index is 1; allowed: less than 1");
  CHECK(refused_call([&] { l.set_burst(1, 1); }) == "limiter.set_burst: index is 1; allowed: less than 1");
  CHECK(refused_call([&] { l.set_burst(0, 0); }) == "limiter.set_burst: burst is 0; allowed: 1 to 2^62");
  CHECK(refused_call([&] { l.set_concurrency(0); }) == "limiter.set_concurrency: concurrency is 0; allowed: 1 or more");
}

TEST_CASE("what a pool refuses names the field of its options") {
  const auto text = [](const strand_pool_options& o) { return refused<strand_pool>(o); };
  CHECK(text({.concurrency = 0}) == "strand_pool_options.concurrency is 0; allowed: 1 to 100000");
  CHECK(text({.concurrency = 1, .queue_limit = 0}) == "strand_pool_options.queue_limit is 0; allowed: 1 or more");
  CHECK(text({.concurrency = 1, .priorities = 0}) == "strand_pool_options.priorities is 0; allowed: 1 to 1024");
  CHECK(text({.concurrency = 1, .timeout = 0s}) == "strand_pool_options.timeout is 0s; allowed: more than 0");
  CHECK(text({.concurrency = 1, .restart = {.limit = 10'001}}) ==
        "strand_pool_options.restart.limit is 10001; allowed: 0 to 10000");
  CHECK(text({.concurrency = 1, .restart = {.within = 0s}}) ==
        "strand_pool_options.restart.within is 0s; allowed: more than 0");

  net::io_context io;
  strand_pool pool{io, {.concurrency = 1}};
  CHECK(refused_call([&] { pool.resize(0); }) == "strand_pool.resize: concurrency is 0; allowed: 1 to 100000");
  const auto submitted = [&](const task_options& o) { return refused_call([&] { (void)pool.submit([] {}, o); }); };
  CHECK(submitted({.timeout = -1s}) == "task_options.timeout is -1s; allowed: more than 0");
  CHECK(submitted({.delay = -1s}) == "task_options.delay is -1s; allowed: 0 or more");
}

TEST_CASE("what a pool of resources refuses names the field of its options") {
  const auto text = [](const resource_pool_options<int>& o) { return refused<resource_pool<int>>(o); };
  const auto make = [] { return 1; };
  CHECK(text({.concurrency = 1}) == "resource_pool_options.make is empty; allowed: a function");
  CHECK(text({.concurrency = 0, .make = make}) == "resource_pool_options.concurrency is 0; allowed: 1 to 100000");
  CHECK(text({.concurrency = 1, .make = make, .idle_timeout = 0s}) ==
        "resource_pool_options.idle_timeout is 0s; allowed: more than 0");
}

TEST_CASE("an option that is a timeout is more than 0, and max is none") {
  net::io_context io;
  check_timeout_option("strand_pool_options.timeout",
                       [&](duration d) { strand_pool{io, {.concurrency = 1, .timeout = d}}; });
  check_timeout_option("task_options.timeout", [&](duration d) {
    strand_pool pool{io, {.concurrency = 1}};
    (void)pool.submit([] {}, {.timeout = d});
  });
  const auto resources = [&](auto set) {
    return [&io, set](duration d) {
      resource_pool_options<int> o{.concurrency = 1, .make = [] { return 1; }};
      set(o) = d;
      resource_pool<int>{io, o};
    };
  };
  check_timeout_option("resource_pool_options.timeout", resources([](auto& o) -> auto& { return o.timeout; }));
  check_timeout_option("resource_pool_options.idle_timeout",
                       resources([](auto& o) -> auto& { return o.idle_timeout; }));
  check_timeout_option("resource_pool_options.call_timeout",
                       resources([](auto& o) -> auto& { return o.call_timeout; }));
  check_timeout_option("policy_options.timeout", [&](duration d) { policy{io, {.timeout = d}}; });
  check_timeout_option("policy_options.attempt_timeout", [&](duration d) { policy{io, {.attempt_timeout = d}}; });
}

TEST_CASE("what a budget of retries refuses names the field") {
  CHECK(refused_call([] { retry_budget{{.percent = 1001}}; }) == "retry_budget.percent is 1001; allowed: 0 to 1000");
  CHECK(refused_call([] { retry_budget{{.most = 0}}; }) ==
        "retry_budget.most is 0; allowed: 1 or more, and at least `reserve`");
}

TEST_CASE("the bounds that a refusal names are within them") {
  const std::string none = "nothing was thrown";
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  constexpr duration least{1};
  const rate r = rate::per_second(5);
  const auto s = [](const scheduler_options& o) { return refused<scheduler>(o); };
  for (const std::uint64_t burst : {std::uint64_t{1}, most}) {
    CHECK(s({.rate = rate{1, 1s}, .burst = burst, .initial_tokens = burst}) == none);
    CHECK(s({.rate = r, .burst = burst, .initial_tokens = 0}) == none);
  }
  CHECK(s({.rate = r, .priorities = 1, .queue_limit = 1, .ageing = least}) == none);
  CHECK(s({.rate = r, .priorities = 1024}) == none);
  const auto m = [](const semaphore_options& o) { return refused<semaphore>(o); };
  CHECK(m({.permits = 1}) == none);
  CHECK(m({.permits = most}) == none);
  const auto l = [](const limiter_options& o) { return refused<limiter>(o); };
  CHECK(l({.rates = {16, {.rate = r}}}) == none);
  CHECK(l({.rates = {{.rate = r}}}) == none);
  CHECK(l({.concurrency = 1}) == none);
  const auto p = [](const strand_pool_options& o) { return refused<strand_pool>(o); };
  CHECK(p({.concurrency = 1, .priorities = 1, .queue_limit = 1, .timeout = least}) == none);
  CHECK(p({.concurrency = 1, .priorities = 1024, .restart = {.limit = 10'000, .within = least}}) == none);
  CHECK(p({.concurrency = 1, .restart = {.limit = 0}}) == none);
  CHECK(p({.concurrency = 100'000}) == none);

  net::io_context io;
  semaphore places{io, {.permits = 3, .priorities = 2}};
  auto all = places.try_acquire({.priority = 1, .tokens = 3});
  REQUIRE(all);
  CHECK(refused_call([&] { (void)all->split(3); }) == none);
  for (const std::uint64_t permits : {std::uint64_t{1}, most}) {
    CHECK(refused_call([&] { places.resize(permits); }) == none);
  }
  strand_pool pool{io, {.concurrency = 1, .priorities = 2}};
  CHECK(refused_call([&] { (void)pool.submit([] {}, {.priority = 1, .timeout = 1ns, .delay = 0s}); }) == none);
  CHECK(refused_call([&] { pool.resize(1); }) == none);
  CHECK(refused_call([] { retry_budget{{.percent = 1000}}; }) == none);
  CHECK(refused_call([] { retry_budget{{.percent = 0, .reserve = 1, .most = 1}}; }) == none);
}

TEST_CASE("so are those of options that say how a limit is shared and how it adapts") {
  const std::string none = "nothing was thrown";
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  constexpr duration least{1};
  const rate r = rate::per_second(5);
  const auto s = [](const scheduler_options& o) { return refused<scheduler>(o); };
  CHECK(s({.rate = r, .shedding = {.target = duration::max(), .interval = least}, .slack = 0s}) == none);
  CHECK(s({.rate = r, .shedding = {.target = least}, .slack = 1s}) == none);

  net::io_context io;
  semaphore places{io, {.permits = 3}};
  for (const std::uint32_t weight : {1u, 10'000u}) {
    CHECK(refused_call([&] { flow{places, {.weight = weight, .concurrency = 1, .queue_limit = 1}}; }) == none);
  }
  CHECK(refused_call([&] { flow{places, {.rates = {16, {.rate = r, .burst = most, .initial_tokens = 0}}}}; }) == none);
  CHECK(refused_call([&] { flow{places, {.rates = {17, {.rate = r}}}}; }) ==
        "flow_options.rates.size() is 17; allowed: 0 to 16");
  scheduler quota{io, {.rate = r, .burst = 7}};
  CHECK(refused_call([&] { flow{quota, {.rates = {{.rate = r, .burst = 7, .initial_tokens = 7}}}}; }) == none);

  const auto k = [](const keyed_scheduler_options& o) { return refused<keyed_scheduler<std::string>>(o); };
  CHECK(k({.rate = r, .most_keys = 1, .most_waiting = 1, .priorities = 1, .queue_limit = 1, .ageing = least}) == none);
  CHECK(k({.rate = r, .burst = most, .most_keys = 536'870'912, .priorities = 1024}) == none);
  const auto p = [](const keyed_semaphore_options& o) { return refused<keyed_semaphore<std::string>>(o); };
  CHECK(p({.permits = 1}) == none);
  CHECK(p({.permits = most}) == none);
  CHECK(p({.permits = most + 1}) == "keyed_semaphore_options.permits is 4611686018427387905; allowed: 1 to 2^62");

  const auto c = [](const circuit_breaker_options& o) { return refused_call([&] { circuit{o, time_point{}}; }); };
  CHECK(c({.failures = 1,
           .least_calls = 1,
           .window = 1ms,
           .slow = least,
           .slow_percent = 1,
           .open_for = least,
           .most_open_for = least,
           .probes = 1}) == none);
  CHECK(c({.failures = 100, .slow_percent = 100, .probes = 1000}) == none);
  CHECK(c({.slow_percent = 101}) == "circuit_breaker_options.slow_percent is 101; allowed: 1 to 100");
  CHECK(c({.probes = 1001}) == "circuit_breaker_options.probes is 1001; allowed: 1 to 1000");

  const auto a = [](const adaptive_limit_options& o) { return refused<adaptive_limit>(o); };
  CHECK(a({.initial = 1, .least = 1, .most = 1, .algorithm = aimd{.target = least}}) == none);
  CHECK(a({.initial = 1'000'000, .least = 1'000'000, .most = 1'000'000}) == none);
  CHECK(a({.most = 1'000'001}) == "adaptive_limit_options.most is 1000001; allowed: least, which is 1, to 1000000");

  retry_budget budget{hedge_budget};
  latency_window window{{.length = 2ns, .least_samples = 1}};
  const auto h = [&](hedge_delay after, std::uint32_t copies) {
    const hedge_options o{.after = after, .copies = copies, .budget = &budget, .window = &window};
    return refused_call([&] { detail::check(o); });
  };
  for (const std::uint32_t copies : {1u, 16u}) CHECK(h(0s, copies) == none);
  for (const double share : {0., 1.}) CHECK(h(quantile{share}, 1) == none);
  CHECK(h(0s, 17) == "hedge_options.copies is 17; allowed: 1 to 16");

  CHECK(refused<loop_lag>(loop_lag_options{.interval = 1ms, .threshold = least}) == none);
}

TEST_CASE("what a keyed limit refuses names the field of its options") {
  const rate r = rate::per_second(5);
  const auto rates = [](const keyed_scheduler_options& o) { return refused<keyed_scheduler<std::string>>(o); };
  CHECK(rates({.rate = r, .burst = 0}) == "keyed_scheduler_options.burst is 0; allowed: 1 to 2^62");
  CHECK(rates({.rate = r, .most_keys = 0}) == "keyed_scheduler_options.most_keys is 0; allowed: 1 to 2^29");
  CHECK(rates({.rate = r, .most_keys = 536870913}) ==
        "keyed_scheduler_options.most_keys is 536870913; allowed: 1 to 2^29");
  CHECK(rates({.rate = r, .on_new_key = static_cast<overflow_of_keys>(2)}) ==
        "keyed_scheduler_options.on_new_key is 2; allowed: refuse, share_one");
  CHECK(rates({.rate = r, .most_waiting = 0}) == "keyed_scheduler_options.most_waiting is 0; allowed: 1 or more");
  CHECK(rates({.rate = r, .priorities = 0}) == "keyed_scheduler_options.priorities is 0; allowed: 1 to 1024");
  CHECK(rates({.rate = r, .queue_limit = 0}) == "keyed_scheduler_options.queue_limit is 0; allowed: 1 or more");
  CHECK(rates({.rate = r, .on_overflow = overflow::wait}) ==
        std::string{"keyed_scheduler_options.on_overflow is wait; allowed: "} + overflows);
  CHECK(rates({.rate = r, .ageing = 0s}) == "keyed_scheduler_options.ageing is 0s; allowed: more than 0");
  const auto permits = [](const keyed_semaphore_options& o) { return refused<keyed_semaphore<std::string>>(o); };
  CHECK(permits({.permits = 0}) == "keyed_semaphore_options.permits is 0; allowed: 1 to 2^62");
  CHECK(permits({.most_keys = 0}) == "keyed_semaphore_options.most_keys is 0; allowed: 1 to 2^29");
}

TEST_CASE("what the lag of a loop and a window of latencies refuse names the field of their options") {
  const auto lag = [](const loop_lag_options& o) { return refused<loop_lag>(o); };
  CHECK(lag({.interval = 1us}) == "loop_lag_options.interval is 1us; allowed: 1ms or more");
  CHECK(lag({.threshold = 0ns}) == "loop_lag_options.threshold is 0s; allowed: 1ns or more");
  CHECK(refused_call([] { latency_window w{{.length = 1ns}}; }) ==
        "latency_window.length is 1ns; allowed: 2ns or more");
  CHECK(refused_call([] { latency_window w{{.least_samples = 0}}; }) ==
        "latency_window.least_samples is 0; allowed: 1 or more");
}

TEST_CASE("what a hedge refuses names the field of its options") {
  retry_budget b;
  latency_window w;
  const auto text = [](const hedge_options& o) { return refused_call([&] { detail::check(o); }); };
  CHECK(text({.after = -1ms, .budget = &b}) == "hedge_options.after is -1ms; allowed: 0 or more");
  CHECK(text({.after = quantile{1.5}, .budget = &b, .window = &w}) ==
        "hedge_options.after is 1.500000; allowed: a quantile from 0 to 1");
  CHECK(text({.after = quantile{0.5}, .budget = &b}) ==
        "hedge_options.window is null; allowed: a latency_window, for a quantile");
  CHECK(text({.copies = 0, .budget = &b}) == "hedge_options.copies is 0; allowed: 1 to 16");
  CHECK(text({.copies = 17, .budget = &b}) == "hedge_options.copies is 17; allowed: 1 to 16");
  CHECK(text({.after = 1s}) == "hedge_options.budget is null; allowed: a retry_budget, such as hedge_budget makes");
}
