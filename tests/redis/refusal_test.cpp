// Every check of an option or an argument of the Redis edge, with all of its text.
#include "support/refusal.hpp"

#include "canigo/redis/command.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "support/timeout_rule.hpp"

#include <asio/io_context.hpp>

#include <cstdint>
#include <string>

using namespace std::chrono_literals;
namespace net = canigo::net;
namespace redis = canigo::redis;

namespace {

std::string refused_by_redis(auto call) {
  const std::string text = refusal(call);
  return text.substr(0, text.rfind(": invalid argument"));
}

constexpr std::uint64_t past_the_most = (std::uint64_t{1} << 31) + 1;

}  // namespace

TEST_CASE("what a client of Redis refuses names the field of its options") {
  const auto text = [](const redis::client_options& o) {
    net::io_context io;
    return refused_by_redis([&] { redis::client{io, "unix:/nonexistent/redis.sock", o}; });
  };
  CHECK(text({.connect_timeout = 0s}) == "client_options.connect_timeout is 0s; allowed: more than 0");
  CHECK(text({.timeout = 0s}) == "client_options.timeout is 0s; allowed: more than 0");
  CHECK(text({.reconnect = {.cap = 1s, .min = 2s}}) == "client_options.reconnect.min is 2s; allowed: 0 to cap, 1s");
  CHECK(text({.queue_limit = 0}) == "client_options.queue_limit is 0; allowed: 1 or more");
  CHECK(text({.max_reply = 1}) == "client_options.max_reply is 1; allowed: 1024 or more");
  CHECK(text({.name = "a b"}) == "client_options.name is a b; allowed: text without spaces");
  CHECK(text({.key_file = "/k"}) == "client_options.key_file is /k; allowed: nothing where cert_file is empty");
}

TEST_CASE("an option of Redis that is a timeout is more than 0, and max is none") {
  net::io_context io;
  const auto open = [&](const redis::client_options& o) { redis::client{io, "unix:/nonexistent/redis.sock", o}; };
  check_timeout_option("client_options.connect_timeout", [&](canigo::duration d) { open({.connect_timeout = d}); });
  check_timeout_option("client_options.timeout", [&](canigo::duration d) { open({.timeout = d}); });
  check_timeout_option("command.with_timeout: d",
                       [](canigo::duration d) { (void)redis::command{"PING"}.with_timeout(d); });
}

TEST_CASE("what a limit in Redis refuses names the field of its options") {
  net::io_context io;
  redis::client client{io, "unix:/nonexistent/redis.sock"};
  const auto slots = [&](const redis::semaphore_options& o) {
    return refused_by_redis([&] { redis::semaphore{client, "s", o}; });
  };
  CHECK(slots({.permits = 0}) == "semaphore_options.permits is 0; allowed: 1 to 2^31");
  CHECK(slots({.permits = 1, .lease = 25h}) == "semaphore_options.lease is 25h; allowed: 10ms to 1d");
  CHECK(slots({.permits = 1, .priorities = 0}) == "semaphore_options.priorities is 0; allowed: 1 to 256");
  CHECK(slots({.permits = 1, .queue_limit = 0}) == "semaphore_options.queue_limit is 0; allowed: 1 or more");
  CHECK(slots({.permits = 1, .give_up = 0s}) == "semaphore_options.give_up is 0s; allowed: more than 0");
  CHECK(slots({.permits = 1, .horizon = 1h}) == "semaphore_options.horizon is 1h; allowed: 0 to the lease");

  const auto r = canigo::rate::per_second(1);
  const auto quota = [&](const redis::scheduler_options& o) {
    return refused_by_redis([&] { redis::scheduler{client, "q", o}; });
  };
  CHECK(quota({.rate = r, .burst = 0}) == "scheduler_options.burst is 0; allowed: 1 to 2^31");
  CHECK(quota({.rate = r, .priorities = 257}) == "scheduler_options.priorities is 257; allowed: 1 to 256");
  CHECK(quota({.rate = r, .queue_limit = 0}) == "scheduler_options.queue_limit is 0; allowed: 1 or more");
  CHECK(quota({.rate = r, .give_up = 0s}) == "scheduler_options.give_up is 0s; allowed: more than 0");
  CHECK(quota({.rate = r, .horizon = 2min}) == "scheduler_options.horizon is 2m; allowed: 0 to 1 min");
  CHECK(quota({.rate = r, .on_failure = redis::failure_mode::local(2)})
            .find("scheduler_options.on_failure: share is 2.0") == 0);
  CHECK(refused_by_redis([&] { redis::scheduler{client, "", {.rate = r}}; }) == "scheduler: name is ; allowed: a name");
}

TEST_CASE("what a call of a limit in Redis refuses names the member and its argument") {
  net::io_context io;
  redis::client client{io, "unix:/nonexistent/redis.sock"};
  redis::semaphore slots{client, "s", {.permits = 1}};
  CHECK(refused_by_redis([&] { slots.resize(0); }) == "semaphore.resize: permits is 0; allowed: 1 to 2^31");
  redis::scheduler quota{client, "q", {.rate = canigo::rate::per_second(1)}};
  CHECK(refused_by_redis([&] { quota.set_burst(0); }) ==
        "scheduler.set_burst: burst is 0; allowed: 1 to 2147483648 at 1/s");
  CHECK(refused_by_redis([&] { quota.charge(past_the_most); }) ==
        "scheduler.charge: tokens is 2147483649; allowed: 0 to 2^31");
  CHECK(refused_by_redis([&] { quota.refund(past_the_most); }) ==
        "scheduler.refund: tokens is 2147483649; allowed: 0 to 2^31");
}

TEST_CASE("the bounds that a refusal of the Redis edge names are within them") {
  const std::string none = "nothing was thrown";
  constexpr canigo::duration least{1};
  constexpr std::uint64_t most = past_the_most - 1;
  net::io_context io;
  const std::string nowhere = "unix:/nonexistent/redis.sock";
  const redis::client_options smallest{.connect_timeout = least, .timeout = least, .queue_limit = 1, .max_reply = 1024};
  CHECK(refused_by_redis([&] { redis::client{io, nowhere, smallest}; }) == none);

  redis::client client{io, nowhere};
  const auto slots = [&](const redis::semaphore_options& o) {
    return refused_by_redis([&] { redis::semaphore{client, "s", o}; });
  };
  CHECK(slots({.permits = 1, .lease = 10ms, .priorities = 1, .queue_limit = 1, .give_up = least, .horizon = 0s}) ==
        none);
  CHECK(slots({.permits = most, .lease = 24h, .priorities = 256, .horizon = 24h}) == none);
  const auto r = canigo::rate::per_second(1);
  const auto quota = [&](const redis::scheduler_options& o) {
    return refused_by_redis([&] { redis::scheduler{client, "q", o}; });
  };
  CHECK(quota({.rate = r, .burst = 1, .priorities = 1, .queue_limit = 1, .give_up = least, .horizon = 0s}) == none);
  CHECK(quota({.rate = r, .burst = most, .priorities = 256, .horizon = 1min}) == none);
  CHECK(quota({.rate = r, .on_failure = redis::failure_mode::local(1)}) == none);

  redis::semaphore places{client, "s", {.permits = 1}};
  redis::scheduler tokens{client, "q", {.rate = r}};
  for (const std::uint64_t n : {std::uint64_t{1}, most}) {
    CHECK(refused_by_redis([&] { places.resize(n); }) == none);
    CHECK(refused_by_redis([&] { tokens.set_burst(n); }) == none);
    CHECK(refused_by_redis([&] { tokens.charge(n); }) == none);
    CHECK(refused_by_redis([&] { tokens.refund(n); }) == none);
  }
}
