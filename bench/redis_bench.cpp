// redis::semaphore beside a bare script on the same connection: what the queue, the leases and the waiters cost.
#include <canigo/redis/semaphore.hpp>

#include "harness.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

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

  std::string url() const { return "unix:" + folder_ + "/redis.sock"; }

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

}  // namespace

int main() {
  server s;
  asio::io_context io;
  redis::client client{io, s.url(), {.connect_timeout = 1s, .timeout = 10s}};
  redis::semaphore slots{client, "bench", {.permits = 1000, .lease = 30s, .quarantine = false}};
  std::string sha;
  const auto prepare = [&]() -> asio::awaitable<void> {
    sha = (co_await client.run("SCRIPT", "LOAD", bare_script)).text();
    (co_await slots.acquire(0)).release();
  };
  bool ready = false;
  asio::co_spawn(io, prepare(), [&](std::exception_ptr e) { ready = e == nullptr; });
  while (!ready && io.run_one() != 0) {
  }
  if (!ready) return 1;

  const auto ours = [&](int n) -> asio::awaitable<void> {
    for (int i = 0; i < n; ++i) {
      auto p = co_await slots.acquire(0);
      p.release();
    }
  };
  // Two calls, as an acquire and a release are.
  const auto floor = [&](int n) -> asio::awaitable<void> {
    for (int i = 0; i < n; ++i) {
      co_await client.run("EVALSHA", sha, 1, "bench");
      co_await client.run("EVALSHA", sha, 1, "bench");
    }
  };
  for (const int in_flight : {1, 8, 64}) {
    const std::string shown = std::to_string(in_flight);
    bench::match{"B14", "Redis: acquire + release, " + shown + " in flight"}
        .add("canigo", [&] { return run(io, in_flight, rounds, ours); })
        .add("two bare EVALSHA", [&] { return run(io, in_flight, rounds, floor); })
        .run(5);
  }
}
