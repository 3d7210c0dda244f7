// What fails as a whole where there is no memory. Everything that waits is in torture/. A program of its own, as it
// replaces the heap.

#include "canigo/cancel.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/timeout.hpp"

#include "support/allocations.hpp"
#include "support/catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <cstdint>
#include <exception>
#include <new>

using namespace allocations;
using namespace canigo;
using namespace std::chrono_literals;

TEST_CASE("a cancellation that fails for want of memory is to be asked for again", "[memory]") {
  net::io_context io;
  testing::virtual_time time{io};
  cancel_source source;
  int ended = 0;
  for (int i = 0; i < 3; ++i) {
    net::co_spawn(io, source.wrap(sleep_for(1000h)), [&ended](std::exception_ptr) { ++ended; });
  }
  time.run_for(2ms);
  bool threw = false;
  {
    const failing f{0};  // a later one may be a strand's, which does not survive it
    try {
      source.cancel();
    } catch (const std::bad_alloc&) {
      threw = true;
    }
  }
  CHECK(threw);
  CHECK(source.cancelled());
  source.cancel();
  time.run();
  CHECK(ended == 3);
  CHECK(time.elapsed() == 2ms);
}

TEST_CASE("making a scheduler fails as a whole", "[memory]") {
  net::io_context io;
  const scheduler_options two_classes{.rate = rate::per_second(100), .burst = 4, .priorities = 2};
  scheduler first{io, two_classes};  // the context's services
  const auto points = for_every_allocation([&](std::int64_t k) {
    const std::int64_t before = live;
    bool has_failed = false;
    {
      failing f{k};
      try {
        const scheduler s{io, two_classes};
      } catch (const std::bad_alloc&) {
      }
      has_failed = f.stop();
    }
    CHECK(live == before);
    return has_failed;
  });
  CHECK(points > 2);
}

TEST_CASE("statistics fail as a whole", "[memory]") {
  net::io_context io;
  scheduler s{io, {.rate = rate::per_hour(1), .initial_tokens = 1, .priorities = 5}};
  CHECK(s.try_acquire(4));
  const auto tried = for_every_allocation([&](std::int64_t k) {
    bool has_failed = false;
    {
      failing f{k};
      try {
        (void)s.stats();
      } catch (const std::bad_alloc&) {
      }
      has_failed = f.stop();
    }
    CHECK(s.stats().classes.at(4).granted == 1);
    return has_failed;
  });
  CHECK(tried > 0);
}
