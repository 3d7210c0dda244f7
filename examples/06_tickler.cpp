// A program that starts many small jobs: a hundred jobs of 20 ms, ten at a time, with a bounded queue. Time is virtual
// (see 02_priorities.cpp).
#include <canigo/strand_pool.hpp>
#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <exception>

using namespace std::chrono_literals;

asio::io_context io;
canigo::testing::virtual_time now{io};

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

asio::awaitable<void> story() {
  // At most ten jobs run, and twenty more may wait. While the queue is full, the producer is suspended.
  canigo::strand_pool pool{io, {.concurrency = 10, .queue_limit = 20, .on_overflow = canigo::overflow::wait}};
  int running = 0, most = 0, done = 0;

  const auto job = [&](canigo::task_context&) -> asio::awaitable<void> {
    most = std::max(most, ++running);
    co_await canigo::sleep_for(20ms);
    --running;
    ++done;
  };
  for (int i = 0; i < 100; ++i) asio::co_spawn(io, pool.run(job), rethrow);

  co_await canigo::sleep_for(10ms);
  const auto stats = pool.stats();
  fmt::print("{:3} ms: {} run, {} wait, {} producers are held back\n", now.elapsed() / 1ms, stats.working, stats.queued,
             stats.held_back);

  while (done < 100) co_await canigo::sleep_for(5ms);
  fmt::print("{:3} ms: {} done, at most {} at once\n", now.elapsed() / 1ms, done, most);

  // A short operation is a plain callable, which a worker calls on its strand.
  const int sum = co_await pool.run([] { return 40 + 2; });
  fmt::print("{:3} ms: {}\n", now.elapsed() / 1ms, sum);
}

int main() {
  asio::co_spawn(io, story(), rethrow);
  now.run();
}
