// What is due, or is to end, where there is no memory for it. A program of its own, as it replaces the heap.

#include "canigo/cancel_after.hpp"
#include "canigo/stop_on_signals.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task_group.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/time_source.hpp"
#include "canigo/timeout.hpp"

#include "support/allocations.hpp"
#include "support/catch.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>

#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>

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
  auto ahead = 1ms;
  const auto needed = for_every_allocation([&ahead](std::int64_t k) {
    for (;;) {
      net::io_context io{1};
      auto& time = time_source::of(io.get_executor());
      counting d;
      const auto when = time.now() + ahead;
      bool is_armed = false;
      bool has_failed = false;
      {
        failing f{k};
        is_armed = time.arm(d, when);
        io.poll();  // where it has no timer, it looks at the clock in each turn of the loop
        has_failed = f.stop();
      }
      const bool was_ahead = time.now() < when;
      io.restart();
      io.run();
      CHECK(is_armed);
      CHECK(d.calls == 1);
      CHECK(time.now() >= when);
      CHECK(time.idle());
      if (was_ahead) return has_failed;
      ahead *= 2;  // a deadline that has passed needs no timer
    }
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

TEST_CASE("a deadline for which there is no memory at all is called once there is some", "[time_source]") {
  // Its executor takes memory for each function; and where it has none, its thread ends the program.
  net::thread_pool threads{1};
  auto& time = time_source::of(threads.get_executor());
  counting first, second;
  {
    failing f{0, victims::all, 100, &here};
    const bool is_armed = time.arm(first, time.now());
    CHECK(f.stop());
    CHECK(is_armed);
  }
  CHECK(time.arm(second, time.now()));
  threads.join();
  CHECK(first.calls == 1);
  CHECK(second.calls == 1);
}

TEST_CASE("a timer that nobody waits for is let go of at once where there is no memory to do so later",
          "[time_source]") {
  net::thread_pool threads{1};
  auto& time = time_source::of(threads.get_executor());
  counting d;
  CHECK(time.arm(d, time.now() + 24h));
  {
    failing f{0, victims::all, 100, &here};
    const bool is_cancelled = time.cancel(d);
    CHECK(f.stop());
    CHECK(is_cancelled);
  }
  // And the next one as well, where there is memory.
  struct telling : deadline {
    telling() : deadline{[](deadline& self, due) noexcept { static_cast<telling&>(self).told.set_value(); }} {}
    std::promise<void> told;
  } soon;
  CHECK(time.arm(soon, time.now()));
  soon.told.get_future().wait();
  CHECK(time.arm(d, time.now() + 24h));
  CHECK(time.cancel(d));
  threads.join();  // returns
  CHECK(d.calls == 0);
}

TEST_CASE("a limit that is reached where there is no memory to say so is told a millisecond later", "[timeout]") {
  net::io_context io;
  testing::virtual_time time{io};
  std::error_code how;
  net::steady_timer never{io, net::steady_timer::time_point::max()};
  SECTION("of an operation of Asio's") {
    never.async_wait(canigo::cancel_after(2s, net::bind_executor(io, [&how](std::error_code ec) { how = ec; })));
  }
  SECTION("of a coroutine") {
    net::co_spawn(io, with_timeout(sleep_for(1h), 2s), [&how](std::exception_ptr e) {
      try {
        std::rethrow_exception(e);
      } catch (const std::system_error& error) {
        how = error.code();
      }
    });
  }
  time.run_for(2s - 1ns);
  {
    failing f{0};
    time.run_for(1ns);
    CHECK(f.stop());
  }
  CHECK_FALSE(how);
  time.run();
  CHECK(how == errc::timed_out);
  CHECK(time.elapsed() == 2s + 1ms);
}

TEST_CASE("children of a group that there is no memory to cancel are cancelled a millisecond later", "[task_group]") {
  const bool context_goes = GENERATE(false, true);
  std::int64_t before = 0;
  for (int round = 0; round < 2; ++round) {  // what is made once is made the first time
    before = live;
    auto io = std::make_unique<net::io_context>();
    std::optional<testing::virtual_time> time{*io};
    task_group group{*io};
    for (int i = 0; i < 3; ++i) group.spawn(sleep_for(1h));
    time->run_for(1s);
    {
      failing f{0, victims::all, 100};  // for two calls
      group.cancel();
      group.cancel();
      CHECK(f.stop());
    }
    CHECK(group.running() == 3);
    if (context_goes) {
      time.reset();
      io.reset();
    } else {
      time->run();
      CHECK(group.running() == 0);
      CHECK(time->elapsed() == 1s + 1ms);
    }
  }
  CHECK(live == before);
}

TEST_CASE("signals that can't be let go of for want of memory keep a stopped pool's loop no longer", "[signals]") {
  net::io_context io;
  strand_pool pool{io, {.concurrency = 1}};
  std::optional<stop_on_signals> signals{std::in_place, io, pool};
  io.poll();
  {
    failing f{0};
    signals.reset();
    CHECK(f.stop());
  }
  pool.request_stop(stop_mode::drain);
  io.restart();
  io.run();  // returns
  CHECK(pool.is_closed());
}
