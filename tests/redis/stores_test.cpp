// What the newer servers do with scripts, and what a limit makes of it. tests/redis/stores runs this and other files
// against each of them; there the environment variable CANIGO_TEST_STORE names the server.
#include "../lib/redis/script.hpp"

#include "canigo/redis/client.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "redis/member.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

using namespace redis_test;
using namespace std::chrono_literals;

namespace stores_test {

bool is_newer() { return std::getenv("CANIGO_TEST_STORE") != nullptr; }

std::int64_t us_of(const redis::reply& time) {
  return std::stoll(time.elements().at(0).text()) * 1'000'000 + std::stoll(time.elements().at(1).text());
}

TEST_CASE("a limit sends its script again when the server has evicted it for those of others [realtime]",
          "[realtime]") {
  redis_server server;
  drained io;
  redis::client client{io, server.url()};
  redis::semaphore slots{client, "crm", {.permits = 1, .quarantine = false}};
  redis::scheduler quota{client, "crm", {.rate = rate::per_second(1000), .burst = 10}};
  const auto take = [&]() -> net::awaitable<bool> {
    co_await quota.acquire(0);
    co_return true;
  };
  for (std::uint64_t round = 0; round < 3; ++round) {
    auto p = run(io, slots.acquire());
    run(io, take());
    // They keep the last 500 that came by EVAL.
    for (int i = 0; i < 600; ++i) {
      run(io, client.run("EVAL", "return " + std::to_string(round) + " + " + std::to_string(i), 0));
    }
    CHECK(p.held() == 1);
    p.release();
    const auto again = run(io, slots.acquire_now());
    CHECK(again.has_value());
  }
  CHECK(slots.stats().available);
  CHECK(slots.stats().last_error.empty());
  const std::string info = run(io, client.run("INFO", "stats")).text() + run(io, client.run("INFO", "memory")).text();
  const bool has_evicted =
      info.find("evicted_scripts:") != info.npos && info.find("evicted_scripts:0\r") == info.npos;
  if (is_newer()) CHECK(has_evicted);
  if (has_evicted) CHECK(slots.stats().failed_calls >= 2);  // NOSCRIPT
}

TEST_CASE("time stands inside of a script, and a limit's script asks once; between two that wait it has gone on") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  const std::string takes_long = "for i = 1, 20000000 do end ";  // 100 ms
  const auto both =
      run(io, client.run("EVAL", "local a = redis.call('TIME') " + takes_long + "return {a, redis.call('TIME')}", 0));
  const auto passed = us_of(both.elements().at(1)) - us_of(both.elements().at(0));
  if (is_newer()) CHECK(passed == 0);
  std::size_t times = 0;
  for (auto at = redis::detail::sync_script().find("'TIME'"); at != std::string_view::npos;
       at = redis::detail::sync_script().find("'TIME'", at + 1)) {
    ++times;
  }
  CHECK(times == 1);
  // The second is there before the first begins, and still counts the time that the first takes.
  std::int64_t first = 0, second = 0;
  const auto asks = [&](std::int64_t& told, const std::string& script) {
    client.async_run(redis::command{"EVAL", script, 0},
                     [&told](std::error_code, const redis::reply& r) { told = us_of(r); });
  };
  asks(first, "local a = redis.call('TIME') " + takes_long + "return a");
  asks(second, "return redis.call('TIME')");
  run_until(io, [&] { return second != 0; });
  CHECK(second - first >= 5'000);
}

}  // namespace stores_test
