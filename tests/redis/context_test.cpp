// A client and its limits go before their context, after it, or at the same moment on another thread.
#include "canigo/redis/client.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <atomic>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>

using namespace redis_test;

namespace {

struct limits {
  explicit limits(net::io_context& io) : client{io, "unix:/nonexistent/redis.sock"} {}
  redis::client client;
  redis::scheduler quota{client, "crm", {.rate = rate::per_second(1)}};
  redis::semaphore slots{client, "crm", {.permits = 1}};
};

}  // namespace

TEST_CASE("a client and its limits go while another thread destroys the context", "[threads]") {
  const bool have_callers = GENERATE(false, true);
  for (int round = 0; round < 2000; ++round) {
    auto io = std::make_unique<net::io_context>();
    auto all = std::make_unique<limits>(*io);
    for (int i = 0; have_callers && i < 8; ++i) {
      all->quota.async_acquire({}, [](std::error_code) {});
      all->slots.async_acquire({}, [](std::error_code, redis::permit) {});
      all->client.async_run(redis::command{"PING"}, [](std::error_code, const redis::reply&) {});
    }
    std::atomic<int> ready{0};
    const auto together = [&] {
      ++ready;
      while (ready != 2) {
      }
    };
    std::thread other{[&] {
      together();
      io.reset();
    }};
    together();
    all.reset();
    other.join();
  }
}

TEST_CASE("limits with waiters go or stop while another thread destroys the context", "[threads]") {
  for (int round = 0; round < 2000; ++round) {
    auto io = std::make_unique<net::io_context>();
    auto all = std::make_unique<limits>(*io);
    auto alive = std::make_shared<int>();
    for (int i = 0; i < 10; ++i) {
      all->quota.async_acquire({}, [alive](std::error_code) { std::terminate(); });
      all->slots.async_acquire({}, [alive](std::error_code, const redis::permit&) { std::terminate(); });
      all->client.async_run(redis::command{"PING"}, [alive](auto&&...) { std::terminate(); });
    }
    io->poll_one();
    std::atomic<int> ready{0};
    const auto together = [&] {
      ++ready;
      while (ready != 2) {
      }
    };
    std::thread other{[&] {
      together();
      for (std::atomic<int> later{round % 40 * 20}; later.fetch_sub(1) > 0;) {
      }
      io.reset();
    }};
    together();
    if (round % 2 == 0) {
      all->quota.stop();
      all->slots.stop();
    }
    all.reset();
    other.join();
    // Whatever was posted in time went with the context.
    REQUIRE(alive.use_count() == 1);
  }
}
