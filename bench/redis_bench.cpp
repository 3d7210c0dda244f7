// redis::semaphore beside a bare script on the same connection: what the queue, the leases and the waiters cost.
#include <canigo/redis/semaphore.hpp>

#include "harness.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;
namespace redis = canigo::redis;

namespace {

constexpr int rounds = 4000;

/// A redis-server in a folder of its own, on a Unix domain socket.
class server {
 public:
  server() {
    folder_ = (std::filesystem::temp_directory_path() / "canigo-XXXXXX").string();
    if (::mkdtemp(folder_.data()) == nullptr) std::abort();
    const std::string socket = folder_ + "/redis.sock";
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket.c_str(), "--dir", folder_.c_str(),
               "--save", "", "--logfile", "log", nullptr);
      std::_Exit(127);
    }
  }
  ~server() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  std::string socket() const { return folder_ + "/redis.sock"; }
  std::string url() const { return "unix:" + socket(); }

 private:
  std::string folder_;
  pid_t pid_ = 0;
};

/// Runs `count` of these coroutines to their end.
template <class Make>
bench::sample run(asio::io_context& io, int count, int operations, Make make) {
  return bench::measure(operations, [&] {
    int left = count;
    for (int i = 0; i < count; ++i) asio::co_spawn(io, make(operations / count), [&](std::exception_ptr) { --left; });
    io.restart();
    while (left > 0) io.run_one();
  });
}

// What the smallest limiter does: the time, a read and a write.
constexpr const char* bare_script =
    "local t = redis.call('TIME') local v = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], t[1]) return v";

/// What `redis-benchmark` needs for two calls, one after the other on one connection; nothing if it is not installed.
bench::sample redis_benchmark(const std::string& socket, const std::string& sha) {
  const std::string command =
      "redis-benchmark -s " + socket + " -c 1 -n 20000 --csv EVALSHA " + sha + " 1 bench 2>/dev/null | tail -1";
  std::array<char, 512> line{};
  FILE* answer = ::popen(command.c_str(), "r");
  if (answer == nullptr) return {};
  const bool said = std::fgets(line.data(), line.size(), answer) != nullptr;
  ::pclose(answer);
  // "EVALSHA …","calls per second",…
  const char* number = said ? std::strstr(line.data(), "\",\"") : nullptr;
  const double per_second = number != nullptr ? std::strtod(number + 3, nullptr) : 0;
  return {per_second > 0 ? 2e9 / per_second : 0};
}

/// Runs this in so many processes at once, each with a client of its own, and waits for all.
template <class Work>
bench::sample in_processes(int count, int operations, Work work) {
  return bench::measure(operations, [&] {
    std::vector<pid_t> all;
    for (int i = 0; i < count; ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        work(operations / count);
        std::_Exit(0);
      }
      all.push_back(pid);
    }
    for (const pid_t pid : all) ::waitpid(pid, nullptr, 0);
  });
}

void print_percentiles(const char* who, std::vector<double> us) {
  std::sort(us.begin(), us.end());
  const auto at = [&](double share) {
    return us[static_cast<std::size_t>(share * static_cast<double>(us.size() - 1))];
  };
  std::printf("  %-40s p50 %.0f us, p90 %.0f us, p99 %.0f us, p99.9 %.0f us\n", who, at(0.5), at(0.9), at(0.99),
              at(0.999));
}

}  // namespace

int main() {
  server s;
  asio::io_context io;
  redis::client client{io, s.url(), {.connect_timeout = 1s, .timeout = 10s}};
  const redis::semaphore_options options{.permits = 1000, .lease = 30s, .quarantine = false};
  redis::semaphore slots{client, "bench", options};
  redis::semaphore kept{client, "kept", {.permits = 1000, .lease = 30s, .horizon = 10s, .quarantine = false}};
  std::string sha;
  const auto prepare = [&]() -> asio::awaitable<void> {
    sha = (co_await client.run("SCRIPT", "LOAD", bare_script)).text();
    (co_await slots.acquire(0)).release();
    (co_await kept.acquire(0)).release();
  };
  bool ready = false;
  asio::co_spawn(io, prepare(), [&](std::exception_ptr e) { ready = e == nullptr; });
  while (!ready && io.run_one() != 0) {
  }
  if (!ready) return 1;

  const auto cycles = [](redis::semaphore& limit, int n) -> asio::awaitable<void> {
    for (int i = 0; i < n; ++i) {
      auto p = co_await limit.acquire(0);
      p.release();
    }
  };
  const auto ours = [&](int n) { return cycles(slots, n); };
  const auto ahead = [&](int n) { return cycles(kept, n); };
  // Two calls, as an acquire and a release are.
  const auto calls = [&](redis::client& c, int n) -> asio::awaitable<void> {
    for (int i = 0; i < n; ++i) {
      co_await c.run("EVALSHA", sha, 1, "bench");
      co_await c.run("EVALSHA", sha, 1, "bench");
    }
  };
  const auto floor = [&](int n) { return calls(client, n); };
  for (const int in_flight : {1, 8, 64}) {
    const std::string shown = std::to_string(in_flight);
    bench::match m{"B14-" + shown, "Redis: acquire + release, " + shown + " in flight"};
    m.add("canigo", [&, in_flight] { return run(io, in_flight, rounds, ours); });
    m.add("two bare EVALSHA", [&, in_flight] { return run(io, in_flight, rounds, floor); });
    if (in_flight == 1) {
      m.add("redis-benchmark, two EVALSHA", [&] { return redis_benchmark(s.socket(), sha); });
      m.add("canigo, permits kept for a horizon", [&] { return run(io, 1, rounds, ahead); });
    }
    m.run(5);
  }
  bench::match{"B14-shared", "Redis: acquire + release, what gathers shares a call"}
      .add("canigo, 64 in flight", [&] { return run(io, 64, rounds, ours); })
      .add("canigo, 1 in flight", [&] { return run(io, 1, rounds, ours); })
      .run(5);
  bench::match{"B14-4x8", "Redis: acquire + release, 4 processes, 8 in flight each"}
      .add("canigo",
           [&] {
             return in_processes(4, 2 * rounds, [&](int n) {
               asio::io_context own;
               redis::client c{own, s.url()};
               redis::semaphore limit{c, "bench", options};
               run(own, 8, n, [&](int each) { return cycles(limit, each); });
             });
           })
      .add("two bare EVALSHA",
           [&] {
             return in_processes(4, 2 * rounds, [&](int n) {
               asio::io_context own;
               redis::client c{own, s.url()};
               run(own, 8, n, [&](int each) { return calls(c, each); });
             });
           })
      .run(5);

  if (!bench::match{"B14", ""}.wanted() || std::getenv("BENCH_JSON") != nullptr) return 0;
  for (const int in_flight : {1, 8, 64}) {
    std::printf("B14 Redis: from acquire to grant, %d in flight\n", in_flight);
    std::vector<double> us;
    const auto timed = [&](int n) -> asio::awaitable<void> {
      for (int i = 0; i < n; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        auto p = co_await slots.acquire(0);
        us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
      }
    };
    run(io, in_flight, 2 * rounds, timed);
    print_percentiles("canigo", us);
    us.clear();
    const auto timed_floor = [&](int n) -> asio::awaitable<void> {
      for (int i = 0; i < n; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        co_await client.run("EVALSHA", sha, 1, "bench");
        us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
      }
    };
    run(io, in_flight, 2 * rounds, timed_floor);
    print_percentiles("a bare EVALSHA", us);
  }
}
