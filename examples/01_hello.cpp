// Limits calls to five per second, the important ones first. The README shows the code between the markers.

// [readme]
#include <canigo/scheduler.hpp>

#include <asio.hpp>
#include <fmt/core.h>

using namespace std::chrono_literals;
const auto start = std::chrono::steady_clock::now();

asio::awaitable<void> call(canigo::scheduler& quota, int priority, const char* what) {
  co_await quota.acquire(priority);  // suspends until this call may go
  const auto elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("{:4} ms  {}\n", elapsed / 200ms * 200, what);  // here a real program sends its request
}

void rethrow(std::exception_ptr error) {  // asio::detached would drop the exception
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
