// The paths whose instructions are counted: `hot_paths NAME OPERATIONS` goes so often along one of them, and prints
// what it took from the heap after the first few.

#include "canigo/detail/time/processor_clock.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/time_source.hpp"

#include "support/allocations.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <tuple>

namespace net = canigo::net;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t plenty = 1'000'000'000;
constexpr long warm_up = 500;
const canigo::scheduler_options granting{.rate = {1, 1ns}, .burst = plenty, .initial_tokens = plenty};

std::int64_t allocated_at_first = 0;
std::int64_t allocated = 0;

/// Before each operation: how many were made, and how many there are.
void count(long made, long operations) {
  if (made == warm_up) allocated_at_first = allocations::made;
  if (made == operations) allocated = allocations::made - allocated_at_first;
}

template <class Operation>
void in_coroutine(net::io_context& io, long operations, Operation operation) {
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        for (long i = 0; i < operations; ++i) {
          count(i, operations);
          co_await operation();
        }
        count(operations, operations);
      },
      net::detached);
  io.run();
}

void try_acquire(long operations) {
  net::io_context io{1};
  canigo::scheduler s{io, granting};
  for (long i = 0; i < operations; ++i) {
    count(i, operations);
    (void)s.try_acquire();
  }
  count(operations, operations);
}

void acquire(long operations) {
  net::io_context io{1};
  canigo::scheduler s{io, granting};
  in_coroutine(io, operations, [&] { return s.acquire(); });
}

net::awaitable<void> take_and_give(auto& from) { const canigo::permit p = co_await from.acquire(); }

void permit(long operations) {
  net::io_context io{1};
  canigo::semaphore s{io, {.permits = 8}};
  in_coroutine(io, operations, [&] { return take_and_give(s); });
}

void limited_permit(long operations) {
  net::io_context io{1};
  const canigo::limiter_options options{.rates = {{granting.rate, plenty, plenty}}, .concurrency = 8};
  canigo::limiter l{io, options};
  in_coroutine(io, operations, [&] { return take_and_give(l); });
}

void hand_over(long operations) {
  net::io_context io{1};
  canigo::semaphore s{io, {.permits = 1}};
  long made = 0;
  for (int c = 0; c < 64; ++c) {
    net::co_spawn(
        io,
        [&]() -> net::awaitable<void> {
          while (made < operations) {
            const canigo::permit p = co_await s.acquire();
            count(++made, operations);
            co_await net::post(net::use_awaitable);
          }
        },
        net::detached);
  }
  io.run();
}

void deadline(long operations) {
  net::io_context io{1};
  auto& time = canigo::time_source::of(io.get_executor());
  canigo::deadline other{[](canigo::deadline&, canigo::due) noexcept {}};
  canigo::deadline d{[](canigo::deadline&, canigo::due) noexcept {}};
  const auto start = time.now();
  time.arm(other, start + 2h);
  for (long i = 0; i < operations; ++i) {
    count(i, operations);
    time.arm(d, start + 3h + i * 1ms);
    std::ignore = time.cancel(d);
  }
  count(operations, operations);
  std::ignore = time.cancel(other);
}

/// Short operations, handed over in one turn of the loop and done in the next.
void posted(long operations) {
  constexpr long burst = 50;  // of which both warm_up and the operations are multiples
  net::io_context io{1};
  canigo::strand_pool pool{io, {.concurrency = 8}};
  long done = 0;
  const std::function<void()> feed = [&] {
    count(done, operations);
    if (done == operations) return;
    for (long i = 0; i < burst; ++i) (void)pool.try_post([&done] { ++done; });
    net::post(io, [&feed] { feed(); });
  };
  feed();
  io.run();
}

void awaited(long operations) {
  net::io_context io{1};
  canigo::strand_pool pool{io, {.concurrency = 8}};
  in_coroutine(io, operations, [&] { return pool.run([] {}); });
}

void with_timeout(long operations) {
  net::io_context io{1};
  canigo::strand_pool pool{io, {.concurrency = 8}};
  const auto operation = []() -> net::awaitable<void> { co_return; };
  in_coroutine(io, operations, [&] { return pool.run(operation, {.timeout = 1s}); });
}

struct path {
  std::string_view name;
  void (*run)(long);
};
constexpr path paths[] = {
    {"scheduler.try_acquire", try_acquire},
    {"scheduler.acquire", acquire},
    {"semaphore.acquire", permit},
    {"limiter.acquire", limited_permit},
    {"semaphore.hand_over", hand_over},
    {"time_source.arm_and_cancel", deadline},
    {"strand_pool.try_post", posted},
    {"strand_pool.run", awaited},
    {"strand_pool.run_with_timeout", with_timeout},
};

}  // namespace

int main(int argc, char** argv) {
  // How often a new anchor is due depends on how fast the machine is.
  canigo::detail::processor_clock.turn_off();
  for (const auto& p : paths) {
    if (argc == 3 && p.name == argv[1]) {
      p.run(std::atol(argv[2]));
      std::printf("%lld\n", static_cast<long long>(allocated));
      return 0;
    }
  }
  for (const auto& p : paths) std::printf("%s\n", p.name.data());
}
