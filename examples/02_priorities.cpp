// Which calls go first when the quota is short: with one class, with three classes, and with three classes and a burst.
//
// Time is virtual: it stands still while handlers run, then jumps to the next deadline. So the seconds below take no
// real time, and the figures are exact and the same on every machine. Without virtual_time, and with io.run() instead
// of time.run(), the same coroutines wait in real time.
#include <canigo/scheduler.hpp>
#include <canigo/testing/virtual_time.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <exception>

using namespace std::chrono_literals;
using canigo::rate;

struct experiment {
  asio::io_context io;
  canigo::testing::virtual_time time{io};  // must precede the first canigo object on `io`
  canigo::time_point start{};
  int order = 0;
};

asio::awaitable<void> work(experiment& e, canigo::scheduler& scheduler, int priority, int batch) {
  co_await scheduler.acquire(priority);
  fmt::print("{:3}.  class {}, batch {}  at {:4} ms\n", ++e.order, priority, batch, (e.time.now() - e.start) / 1ms);
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

void run(const char* title, const canigo::scheduler_options& options, int batches, canigo::duration silence = 0s) {
  fmt::print("{}\n", title);
  experiment e;
  canigo::scheduler scheduler{e.io, options};
  e.time.run_for(silence);
  e.start = e.time.now();
  for (int batch = 0; batch < batches; ++batch) {
    for (int priority = 0; priority < options.priorities; ++priority) {
      asio::co_spawn(e.io, work(e, scheduler, priority, batch), rethrow);
    }
  }
  e.time.run();
}

int main() {
  // One class: calls go in order of arrival. The bucket starts empty, so the first token comes after a fifth of a
  // second.
  run("5 per second, one class, 5 batches", {.rate = rate::per_second(5)}, 5);

  // Three classes with calls at the same time: all of class 0 go first, then class 1, then class 2. Inside a class they
  // go in order of arrival.
  run("\n5 per second, three classes, 3 batches", {.rate = rate::per_second(5), .priorities = 3}, 3);

  // Five tokens were saved up, so the first five calls go immediately, whatever their class is: no other call waits
  // yet. After that tokens are scarce, and the class decides.
  run("\n10 per 3 seconds, three classes, burst 5, 4 batches after 1500 ms of silence",
      {.rate = rate{10, 3s}, .burst = 5, .priorities = 3}, 4, 1500ms);
}
