// The first deadline on a context is what its timer is made for. A program of its own, as it replaces the heap.

#include "canigo/time_source.hpp"

#include "allocations.hpp"
#include "catch.hpp"

#include <asio/io_context.hpp>

using namespace allocations;
using namespace canigo;
using namespace std::chrono_literals;

namespace {

struct counting : deadline {
  counting()
      : deadline{[](deadline& d, due why) noexcept {
          if (why == due::expired) ++static_cast<counting&>(d).calls;
        }} {}
  int calls = 0;
};

}  // namespace

TEST_CASE("a first deadline is called at its time, whichever allocation fails", "[time_source]") {
  const auto needed = for_every_allocation([](std::int64_t k) {
    net::io_context io{1};
    auto& time = time_source::of(io.get_executor());
    counting d;
    const auto when = time.now() + 1ms;
    bool is_armed = false;
    bool has_failed = false;
    {
      const failing f{k};
      is_armed = time.arm(d, when);
      io.poll();  // where it has no timer, it looks at the clock in each turn of the loop
      has_failed = f.has_failed();
    }
    io.restart();
    io.run();
    CHECK(is_armed);
    CHECK(d.calls == 1);
    CHECK(time.now() >= when);
    CHECK(time.idle());
    return has_failed;
  });
  CHECK(needed > 0);
}

TEST_CASE("deadlines after the first take nothing from the heap", "[time_source]") {
  net::io_context io{1};
  auto& time = time_source::of(io.get_executor());
  counting first, second;
  CHECK(time.arm(first, time.now() + 1ms));
  io.run();
  const counted c;
  time.arm(second, time.now() + 1ms);
  io.restart();
  io.run();
  const auto taken = c.so_far();
  CHECK(taken == 0);
  CHECK(first.calls + second.calls == 2);
}
