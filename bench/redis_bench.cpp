// Measures a permit of a redis::semaphore (B14). For comparison, it measures two calls of a bare script on the same
// connection. It also measures how much time waiters save by sharing a call.

#include "canigo/redis/semaphore.hpp"

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
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;
namespace redis = canigo::redis;

namespace {

constexpr int rounds = 4000;

/// A redis-server in its own folder, on a Unix domain socket.
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

// The work of the simplest limiter: it gets the time, reads and writes.
constexpr const char* bare_script =
    "local t = redis.call('TIME') local v = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], t[1]) return v";

bool is_installed(const std::string& program) {
  return std::system(("command -v " + program + " > /dev/null").c_str()) == 0;
}

/// Measures redis-benchmark with two calls, one after the other on one connection.
bench::sample redis_benchmark(const std::string& socket, const std::string& sha) {
  const std::string command =
      "redis-benchmark -s " + socket + " -c 1 -n 20000 --csv EVALSHA " + sha + " 1 bench 2>/dev/null | tail -1";
  std::array<char, 512> line{};
  FILE* answer = ::popen(command.c_str(), "r");
  if (answer == nullptr) return {};
  const bool said = std::fgets(line.data(), line.size(), answer) != nullptr;
  ::pclose(answer);
  // The output has the form "EVALSHA …","calls per second",…
  const char* number = said ? std::strstr(line.data(), "\",\"") : nullptr;
  const double per_second = number != nullptr ? std::strtod(number + 3, nullptr) : 0;
  return {per_second > 0 ? 2e9 / per_second : 0};
}

/// Runs `work` in `count` processes at the same time, each with its own client, and waits for all.
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

const redis::semaphore_options options{.permits = 1000, .lease = 30s, .quarantine = false};

/// A server, with the benchmarks that use it.
struct stage {
  stage() {
    bool ready = false;
    std::exception_ptr failure;
    asio::co_spawn(io, prepare(), [&](std::exception_ptr e) {
      failure = e;
      ready = true;
    });
    while (!ready && io.run_one() != 0) {
    }
    if (failure) std::rethrow_exception(failure);
  }

  bench::sample acquires(redis::semaphore& limit, int in_flight) {
    return run(io, in_flight, rounds, [&](int n) { return cycles(limit, n); });
  }
  bench::sample calls(int in_flight) {
    return run(io, in_flight, rounds, [&](int n) { return twice(client, sha, n); });
  }
  /// Measures acquires in several processes, each with its own client and limit.
  bench::sample acquires_in_processes(int count, int in_flight) {
    return in_processes(count, 2 * rounds, [&](int operations) {
      asio::io_context own;
      redis::client c{own, redis_server.url()};
      redis::semaphore limit{c, "bench", options};
      run(own, in_flight, operations, [&](int n) { return cycles(limit, n); });
    });
  }
  bench::sample calls_in_processes(int count, int in_flight) {
    return in_processes(count, 2 * rounds, [&](int operations) {
      asio::io_context own;
      redis::client c{own, redis_server.url()};
      run(own, in_flight, operations, [&](int n) { return twice(c, sha, n); });
    });
  }
  bench::sample of_redis_benchmark() { return redis_benchmark(redis_server.socket(), sha); }

  static asio::awaitable<void> cycles(redis::semaphore& limit, int n) {
    for (int i = 0; i < n; ++i) {
      auto p = co_await limit.acquire();
      p.release();
    }
  }
  /// Makes two calls, like an acquire and a release.
  static asio::awaitable<void> twice(redis::client& c, const std::string& sha, int n) {
    for (int i = 0; i < 2 * n; ++i) co_await c.run("EVALSHA", sha, 1, "bench");
  }

  asio::awaitable<void> prepare() {
    sha = (co_await client.run("SCRIPT", "LOAD", bare_script)).text();
    (co_await slots.acquire()).release();
    (co_await kept.acquire()).release();
  }

  server redis_server;
  asio::io_context io;
  redis::client client{io, redis_server.url(), {.connect_timeout = 1s, .timeout = 10s}};
  redis::semaphore slots{client, "bench", options};
  redis::semaphore kept{client, "kept", {.permits = 1000, .lease = 30s, .horizon = 10s, .quarantine = false}};
  std::string sha;
};

/// Returns the stage, and makes it on first use.
using stage_at_need = std::function<stage&()>;

void print_percentiles(const char* who, std::vector<double> us) {
  std::sort(us.begin(), us.end());
  const auto at = [&](double share) {
    return us[static_cast<std::size_t>(share * static_cast<double>(us.size() - 1))];
  };
  std::printf("  %-40s p50 %.0f us, p90 %.0f us, p99 %.0f us, p99.9 %.0f us\n", who, at(0.5), at(0.9), at(0.99),
              at(0.999));
}

void throughput(const stage_at_need& at) {
  constexpr int repetitions = 5;
  for (const int in_flight : {1, 8, 64}) {
    const std::string shown = std::to_string(in_flight);
    bench::match m{"B14-" + shown, "Redis: acquire and release, " + shown + " in flight"};
    m.add("redis::semaphore", [&at, in_flight] { return at().acquires(at().slots, in_flight); });
    m.add("bare: two EVALSHA", [&at, in_flight] { return at().calls(in_flight); });
    if (in_flight == 1) {
      if (is_installed("redis-benchmark")) {
        m.add("bare: redis-benchmark, two EVALSHA", [&] { return at().of_redis_benchmark(); });
      }
      m.add("redis::semaphore, permits kept for a horizon", [&] { return at().acquires(at().kept, 1); });
    }
    m.run(repetitions);
  }
  bench::match{"B14-shared", "Redis: acquire and release, what gathers shares a call"}
      .add("64 in flight", [&] { return at().acquires(at().slots, 64); })
      .add("1 in flight", [&] { return at().acquires(at().slots, 1); })
      .run(repetitions);
  bench::match{"B14-4x8", "Redis: acquire and release, 4 processes, 8 in flight each"}
      .add("redis::semaphore", [&] { return at().acquires_in_processes(4, 8); })
      .add("bare: two EVALSHA", [&] { return at().calls_in_processes(4, 8); })
      .run(repetitions);
}

/// Prints the latencies of single calls, and their distribution.
void latencies(stage& s) {
  for (const int in_flight : {1, 8, 64}) {
    std::printf("B14 Redis: from acquire to grant, %d in flight\n", in_flight);
    std::vector<double> us;
    const auto timed = [&](auto call) {
      us.clear();
      run(s.io, in_flight, 2 * rounds, [&](int n) -> asio::awaitable<void> {
        for (int i = 0; i < n; ++i) {
          const auto begin = std::chrono::steady_clock::now();
          co_await call();
          us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
        }
      });
    };
    timed([&] { return s.slots.acquire(); });
    print_percentiles("redis::semaphore", us);
    timed([&] { return s.client.run("EVALSHA", s.sha, 1, "bench"); });
    print_percentiles("a bare EVALSHA", us);
  }
}

}  // namespace

int main() {
  std::optional<stage> made;
  const stage_at_need at = [&]() -> stage& { return made ? *made : made.emplace(); };
  throughput(at);
  if (std::getenv("BENCH_JSON") == nullptr && bench::match{"B14", ""}.wanted()) latencies(at());
}
