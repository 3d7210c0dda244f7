// What a process that waits through an outage of Redis has to say afterwards.
#include "canigo/redis/semaphore.hpp"

#include "catch.hpp"
#include "redis_member.hpp"
#include "redis_server.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;

TEST_CASE("those who gave up in an outage are not all told of when it is over") {
  redis_server server;
  net::io_context io;
  member m{io, server.url(), {.permits = 1, .lease = 60ms, .quarantine = false}};
  server.kill();
  std::size_t given_up = 0;
  while (given_up < 6000) {
    const auto failed = m.slots.stats().failed_calls;
    std::vector<std::unique_ptr<waiting>> some;
    for (int i = 0; i < 1000; ++i) some.push_back(std::make_unique<waiting>(m.slots, canigo::request{}));
    run_until(io, [&] { return m.slots.stats().failed_calls > failed; });
    for (const auto& w : some) w->cancel.emit(net::cancellation_type::total);
    run_until(io, [&] { return std::all_of(some.begin(), some.end(), [](const auto& w) { return w->ended(); }); });
    given_up += some.size();
  }
  server.start();
  auto p = run(io, m.slots.acquire(0));
  CHECK(p.held() == 1);
  // Each costs 16 bytes, and the script is 13000.
  const std::string stats = run(io, m.client.run("INFO", "stats")).text();
  const std::string received = "total_net_input_bytes:";
  REQUIRE(stats.find(received) != std::string::npos);
  const auto bytes = std::strtoull(stats.c_str() + stats.find(received) + received.size(), nullptr, 10);
  CHECK(bytes > 10'000);
  CHECK(bytes < 80'000);
}
