// Two API keys behind one queue: each key has its own quota, and a call takes the first key with free capacity. In the
// middle the server refuses one of the keys, so that key is paused, and the queue continues with the other key. Time is
// virtual (see 02_priorities.cpp), so the figures are exact.
#include <canigo/limiter.hpp>
#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <cstdint>
#include <exception>
#include <string>

using namespace std::chrono_literals;
using canigo::rate;

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

// The keys that may serve a model, as bits: only the account of the first key has the large model.
constexpr std::uint64_t any_key = 3, team_key_only = 1;

asio::awaitable<void> call(canigo::limiter& keys, canigo::testing::virtual_time& time, std::string model) {
  const bool is_large = model == "large";
  canigo::permit key = co_await keys.acquire({.alternatives = is_large ? team_key_only : any_key});
  fmt::print("{:5} ms  {:5} with the {} key\n", time.elapsed() / 1ms, model, key.alternative_name());
  co_await canigo::sleep_for(100ms);  // takes the place of the real call
  if (!is_large && key.alternative_name() == "team" && time.elapsed() > 600ms && time.elapsed() < 2s) {
    fmt::print("{:5} ms  the server refuses the team key for 3 s\n", time.elapsed() / 1ms);
    keys.alternative("team").extend_pause(time.now() + 3s);
  }
}

int main() {
  asio::io_context io;
  canigo::testing::virtual_time time{io};  // must precede the first canigo object on `io`
  canigo::limiter keys{io,
                       {.alternatives = {{.name = "team", .rates = {{rate::per_second(2), 2, 2}}, .concurrency = 4},
                                         {.name = "spare", .rates = {{rate::per_second(1), 1, 1}}, .prefer = 2}}}};
  for (const char* model : {"small", "small", "small", "large", "small", "small", "small", "large", "small"}) {
    asio::co_spawn(io, call(keys, time, model), rethrow);
  }
  time.run();
  for (const canigo::alternative_stats& key : keys.stats().alternatives) {
    fmt::print("{:5}: {} calls\n", key.name, key.granted);
  }
}
