// One process of the chaos test: lets tasks into a shared semaphore, and logs when each is inside.
//
//     redis_worker URL LOG PERMITS LEASE_MS TASKS HOLD_US SECONDS QUARANTINE
//
// A line per event, in one write: "S|E pid task nanoseconds", and after E "ok" or "lost".
#include "canigo/redis/semaphore.hpp"
#include "canigo/timeout.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <random>
#include <signal.h>
#include <string>
#include <system_error>
#include <unistd.h>

namespace net = canigo::net;
using steady = std::chrono::steady_clock;

namespace {

int log_file = -1;

void note(char what, int task, const char* how) {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  char line[96];
  const int length = std::snprintf(line, sizeof line, "%c %d %d %lld%s\n", what, static_cast<int>(::getpid()), task,
                                   static_cast<long long>(t.tv_sec) * 1'000'000'000 + t.tv_nsec, how);
  if (::write(log_file, line, static_cast<std::size_t>(length)) != length) std::abort();
}

net::awaitable<void> contend(canigo::redis::semaphore& slots, int task, std::chrono::microseconds hold,
                             steady::time_point until) {
  std::minstd_rand random{static_cast<unsigned>(::getpid() * 100 + task)};
  while (steady::now() < until) {
    try {
      auto p = co_await slots.acquire({.priority = task % 2, .deadline = until});
      note('S', task, "");
      try {
        auto work = canigo::sleep_for(hold * (random() % 100) / 50);
        co_await p.wrap(std::move(work));
      } catch (const std::system_error&) {
        // Told that the lease is lost; said below.
      }
      note('E', task, p.held() != 0 ? " ok" : " lost");
      p.release();
    } catch (const std::system_error&) {
      // Redis is away, or the time is up.
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) return 2;
  ::signal(SIGPIPE, SIG_IGN);
  log_file = ::open(argv[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  net::io_context io{1};
  canigo::redis::client client{io, argv[1]};
  canigo::redis::semaphore slots{client,
                                 "chaos",
                                 {.permits = std::strtoull(argv[3], nullptr, 10),
                                  .lease = std::chrono::milliseconds{std::atoi(argv[4])},
                                  .priorities = 2,
                                  .quarantine = argv[8][0] == '1'}};
  const auto until =
      steady::now() + std::chrono::duration_cast<steady::duration>(std::chrono::duration<double>{std::atof(argv[7])});
  for (int task = 0; task < std::atoi(argv[5]); ++task) {
    net::co_spawn(io, contend(slots, task, std::chrono::microseconds{std::atoi(argv[6])}, until), net::detached);
  }
  io.run();
}
