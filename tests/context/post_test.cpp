#include "canigo/detail/context/post.hpp"

#include "canigo/net.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"

#include "support/catch.hpp"
#include "support/fickle_executor.hpp"
#include "support/limits_run.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/io_context.hpp>
#include <asio/strand.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <system_error>
#include <utility>

using namespace canigo;
using namespace std::chrono_literals;

TEST_CASE("the executor of a context is found under strands of strands", "[post]") {
  net::io_context io;
  const net::any_io_executor own{io.get_executor()};
  const net::any_io_executor strand{net::make_strand(io)};
  const net::any_io_executor erased{net::make_strand(own)};
  const net::any_io_executor twice{net::make_strand(strand)};
  for (const auto& executor : {own, strand, erased, twice}) CHECK(detail::context_executor(executor) == own);
}

TEST_CASE("fixed memory has room for one, and what does not fit comes from the heap", "[post]") {
  detail::fixed_memory<64> memory;
  detail::fixed_allocator<char, 64> allocator{memory};
  char* first = allocator.allocate(64);
  char* second = allocator.allocate(1);
  CHECK(second != first);
  allocator.deallocate(second, 1);
  allocator.deallocate(first, 64);
  char* large = allocator.allocate(65);
  char* again = allocator.allocate(64);
  CHECK(again == first);
  allocator.deallocate(again, 64);
  allocator.deallocate(large, 65);
}

TEST_CASE("a scheduler on a strand of an erased strand works", "[post]") {
  net::io_context io;
  const net::any_io_executor strand{net::make_strand(net::any_io_executor{net::make_strand(io)})};
  scheduler s{strand, {.rate = rate::per_second(1000)}};
  int granted = 0;
  for (int i = 0; i < 3; ++i) {
    s.async_acquire({}, [&](std::error_code ec) { granted += !ec; });
  }
  io.run();
  CHECK(granted == 3);
}

TEST_CASE("an executor that calls at once, or drops what it is handed, leaves nobody waiting", "[post]") {
  const mood then = GENERATE(mood::calls, mood::drops);
  mood now = mood::posts;
  limits_run run;
  const net::any_io_executor executor{fickle_executor{run.io, [&now] { return now; }}};
  semaphore s{executor, {.permits = 3}};
  strand_pool pool{executor, {.concurrency = 1}};
  permit all = s.try_acquire({.tokens = 3}).value();
  task<void> t = pool.submit([] {}, {.delay = 1h});
  const auto alive = std::make_shared<int>();
  int called = 0;
  for (int i = 0; i < 3; ++i) {
    s.async_acquire({}, [&called, alive](std::error_code, const permit&) { ++called; });
    t.async_wait([&called, alive](const std::exception_ptr&) { ++called; });
  }
  run.time.run_for(1s);
  CHECK(alive.use_count() == 7);
  now = then;
  all.release();
  CHECK(alive.use_count() == 4);
  t.cancel();
  CHECK(alive.use_count() == 1);
  CHECK(called == (then == mood::calls ? 6 : 0));
  CHECK(s.stats().held == 0);
  now = mood::posts;
  pool.request_stop(stop_mode::drain);
  run.time.run();
  CHECK(pool.is_closed());
}
