// Two processes, here two clients, share the limits of a language model: calls per second, tokens per second, and
// concurrent calls.
#include <canigo/redis/limiter.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace std::chrono_literals;

struct counts {
  int calls = 0;
  int inside = 0;
  int most = 0;
};

canigo::redis::limiter_options model() {
  return {.rates = {{.rate = canigo::rate::per_second(40), .burst = 4, .unit = "calls"},
                    {.rate = canigo::rate::per_second(20'000), .burst = 4'000, .unit = "tokens"}},
          .concurrency = 3,
          .lease = 500ms};
}

asio::awaitable<void> ask(canigo::redis::limiter& api, counts& c) {
  for (int i = 0; i < 6; ++i) {
    // A request for one call, with the max number of tokens in its answer.
    auto permit = co_await api.acquire({.amounts = {{"tokens", 500}}});
    c.most = std::max(c.most, ++c.inside);
    co_await permit.wrap(canigo::sleep_for(30ms));
    permit.settle("tokens", 320);  // the answer used fewer tokens than requested
    --c.inside;
    ++c.calls;
  }
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
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
  asio::io_context io;
  canigo::redis::client one{io, "unix:" + socket}, two{io, "unix:" + socket};
  canigo::redis::limiter first{one, "model", model()}, second{two, "model", model()};
  counts c;
  for (int i = 0; i < 2; ++i) {
    asio::co_spawn(io, ask(first, c), rethrow);
    asio::co_spawn(io, ask(second, c), rethrow);
  }
  io.run();
  fmt::print("{} calls, at most {} at once\n", c.calls, c.most);
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
  std::filesystem::remove_all(folder);
}
