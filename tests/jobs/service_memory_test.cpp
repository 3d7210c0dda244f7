// A service while memory runs out at any point. A program of its own, as it replaces the heap.

#include "canigo/jobs/memory_store.hpp"
#include "canigo/jobs/service.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/timeout.hpp"

#include "support/allocations.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/strand.hpp>
#include <asio/version.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

enum ends : int { all_well = 10, no_failure, not_stopped, not_done, a_place_is_lost, by_asio };

/// Asio 1.22 ends the program where it has no memory to begin an operation.
[[noreturn]] void end_by_asio() { ::_exit(by_asio); }
/// Newer versions throw out of the loop instead, and destroy the coroutine that waits for the operation.
constexpr bool destroys_coroutines = ASIO_VERSION >= 102600;

/// Goes on for so long, also where an error comes out of the loop. Whether one did.
bool pass(testing::virtual_time& time, duration d) {
  const time_point end = time.now() + d;
  bool has_thrown = false;
  while (time.now() < end) {
    if (!allocations::attempt([&] { time.run_until(end); })) has_thrown = true;
  }
  return has_thrown;
}

/// The strands of a context share 193 mutexes, which are made when they are needed. Asio 1.22 locks one also where it
/// had no memory to make it.
void make_all_mutexes(net::io_context& io) {
  std::vector<net::strand<net::io_context::executor_type>> strands;
  for (int i = 0; i < 10'000; ++i) strands.push_back(net::make_strand(io));
}

/// Asio 1.22 crashes where it has no memory for a strand: for its state, and what counts those who have it.
bool is_of_a_strand(std::size_t size) {
  using net::detail::strand_executor_service;
  return size == sizeof(strand_executor_service::strand_impl) || size == 24;
}

/// Two jobs run one after the other, while one allocation fails. Afterwards a third one runs, and the service stops.
ends play(std::int64_t k) {
  net::io_context io;
  make_all_mutexes(io);
  testing::virtual_time time{io};
  jobs::memory_store store{io};
  allocations::spares = is_of_a_strand;
  jobs::service_options o;
  o.queues.push_back({.concurrency = 1, .retry = backoff::constant(1s)});
  jobs::service service{io, store, o};
  service.handle("kind", [](jobs::job&) -> net::awaitable<void> { co_await sleep_for(30s); });
  std::vector<jobs::job_id> ids;
  const auto put = [&]() -> net::awaitable<void> {
    jobs::new_job j{.kind = "kind"};
    const jobs::put_answer answer = co_await store.put(std::move(j));
    ids.push_back(answer.id);
  };
  const auto ignored = [](const std::exception_ptr&) {};
  for (int i = 0; i < 2; ++i) net::co_spawn(io, put(), ignored);
  service.start();
  bool has_failed = false, has_thrown = false;
  {
    allocations::failing memory{k};
    has_thrown = pass(time, 90s);
    has_failed = memory.stop();
  }
  const auto failure = [&](ends e) { return destroys_coroutines && has_thrown ? by_asio : e; };
  net::co_spawn(io, put(), ignored);
  pass(time, 1h);
  for (const jobs::job_id id : ids) {
    bool is_done = false;
    const auto look = [&]() -> net::awaitable<void> {
      const auto info = co_await store.look(id);
      is_done = info.value().state == jobs::job_state::done;
    };
    net::co_spawn(io, look(), ignored);
    pass(time, 1s);
    if (!is_done) return failure(not_done);
  }
  if (service.stats().queues.front().running != 0) return failure(a_place_is_lost);
  bool has_stopped = false;
  const auto stop = [&]() -> net::awaitable<void> {
    co_await service.stop(stop_mode::finish_running);
    has_stopped = true;
  };
  net::co_spawn(io, stop(), ignored);
  pass(time, 1h);
  if (!has_stopped) return failure(not_stopped);
  return has_failed ? all_well : no_failure;
}

/// A service is asked for its counts while one allocation fails. Afterwards it counts again.
ends count(std::int64_t k) {
  net::io_context io;
  make_all_mutexes(io);
  testing::virtual_time time{io};
  jobs::memory_store store{io};
  allocations::spares = is_of_a_strand;
  jobs::service service{io, store, {.queues = {{}}}};
  service.start();
  pass(time, 1s);
  bool has_failed = false;
  {
    allocations::failing memory{k};
    allocations::attempt([&] { service.stats(); });
    pass(time, 1s);
    has_failed = memory.stop();
  }
  for (int i = 0; i < 2; ++i) {
    service.stats();
    pass(time, 1min);
  }
  if (!service.stats().queues.front().in_store) return not_done;
  service.request_stop();
  pass(time, 1min);
  return has_failed ? all_well : no_failure;
}

/// Plays it in a process of its own.
int end_of(ends (*scene)(std::int64_t), std::int64_t k) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::set_terminate(end_by_asio);
    ::_exit(scene(k));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a service that lacks memory at any point runs its jobs all the same, and stops", "[jobs]") {
  int well = 0;
  for (std::int64_t k = 0;; ++k) {
    const int end = end_of(play, k);
    if (end == no_failure) break;
    well += end == all_well ? 1 : 0;
    INFO("allocation " << k << " ends with " << end);
    CHECK((end == all_well || end == by_asio));
  }
  CHECK(well > 200);
}

TEST_CASE("a service that lacks memory at any point of a count counts again", "[jobs]") {
  int well = 0;
  for (std::int64_t k = 0;; ++k) {
    const int end = end_of(count, k);
    if (end == no_failure) break;
    well += end == all_well ? 1 : 0;
    INFO("allocation " << k);
    CHECK((end == all_well || end == by_asio));
  }
  CHECK(well > 3);
}
