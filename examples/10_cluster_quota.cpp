// Three processes share 50 calls per second and 5 slots through Redis, and one of them is killed while it works.
#include <canigo/redis/scheduler.hpp>
#include <canigo/redis/semaphore.hpp>
#include <canigo/timeout.hpp>
#include <canigo/with_limit.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace std::chrono_literals;

// The message of a process to its parent: the process's number, and the change of its number of running calls.
struct event {
  int process;
  int change;
};

asio::awaitable<void> call_crm(int process, int out) {
  const event in{process, +1}, leaves{process, -1};
  if (::write(out, &in, sizeof in) != sizeof in) std::abort();
  co_await canigo::sleep_for(150ms);
  if (::write(out, &leaves, sizeof leaves) != sizeof leaves) std::abort();
}

asio::awaitable<void> calls(canigo::redis::scheduler& quota, canigo::redis::semaphore& slots, int process, int out) {
  // The operation is cancelled if the lease is lost.
  for (;;) co_await canigo::with_limits(call_crm(process, out), std::tie(slots, quota), {.priority = 1});
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

void work(const std::string& url, int process, int out) {
  asio::io_context io;
  canigo::redis::client redis{io, url};
  canigo::redis::semaphore slots{redis, "crm-api", {.permits = 5, .lease = 500ms, .priorities = 3}};
  canigo::redis::scheduler quota{redis, "crm-api", {.rate = canigo::rate::per_second(50), .burst = 5, .priorities = 3}};
  for (int i = 0; i < 4; ++i) asio::co_spawn(io, calls(quota, slots, process, out), rethrow);
  io.run_for(3s);
  std::_Exit(0);
}

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "canigo-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const std::string socket = folder + "/redis.sock";
  const pid_t server = ::fork();
  if (server == 0) {
    ::execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket.c_str(), "--dir", folder.c_str(),
             "--save", "", "--logfile", "log", nullptr);
    std::_Exit(1);
  }
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return 1;
  std::array<pid_t, 3> processes{};
  for (int i = 0; i < 3; ++i) {
    processes[static_cast<std::size_t>(i)] = ::fork();
    if (processes[static_cast<std::size_t>(i)] == 0) work("unix:" + socket, i, pipe[1]);
  }
  ::close(pipe[1]);

  std::array<int, 3> inside{};
  int most = 0, before = 0, after = 0;
  bool killed = false;
  event e{};
  while (::read(pipe[0], &e, sizeof e) == sizeof e) {
    inside[static_cast<std::size_t>(e.process)] += e.change;
    most = std::max(most, inside[0] + inside[1] + inside[2]);
    if (e.change > 0) ++(killed ? after : before);
    if (!killed && before >= 20 && inside[0] > 0) {
      fmt::print("killing a process with calls under way\n");
      ::kill(processes[0], SIGKILL);
      ::waitpid(processes[0], nullptr, 0);
      inside[0] = 0;
      killed = true;
    }
  }
  fmt::print("at most {} calls at once; {} before, {} after\n", most, before, after);
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
  std::filesystem::remove_all(folder);
}
