// Five calls a second, the important ones first. The README shows what lies between the markers.

// [readme]
#include <canigo/scheduler.hpp>

#include <asio.hpp>
#include <fmt/core.h>

using namespace std::chrono_literals;
const auto start = std::chrono::steady_clock::now();

asio::awaitable<void> call(canigo::scheduler& quota, int priority, const char* what) {
  co_await quota.acquire(priority);  // suspends until it is this call's turn
  const auto elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("{:4} ms  {}\n", elapsed / 200ms * 200, what);  // here the request would go out
}

void rethrow(std::exception_ptr error) {  // asio::detached would drop it
  if (error) std::rethrow_exception(error);
}

int main() {
  asio::io_context io;
  canigo::scheduler quota{io, {.rate = canigo::rate::per_second(5), .priorities = 3}};
  asio::co_spawn(io, call(quota, 2, "newsletter"), rethrow);
  asio::co_spawn(io, call(quota, 2, "report"), rethrow);
  asio::co_spawn(io, call(quota, 1, "search"), rethrow);
  asio::co_spawn(io, call(quota, 0, "payment"), rethrow);
  io.run();
}
// [readme]
