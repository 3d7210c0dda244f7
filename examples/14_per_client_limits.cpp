// A server gives each client address its own rate, and tells clients with too many requests when to come back. The
// limit is two requests per second with a burst of three; time is virtual (see 02_priorities.cpp).
#include <canigo/keyed.hpp>
#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/format.h>

#include <exception>
#include <string>

using namespace std::chrono_literals;

asio::io_context io;
canigo::testing::virtual_time now{io};
canigo::keyed_scheduler<std::string> per_client{io,
                                                {.rate = canigo::rate::per_second(2), .burst = 3, .most_keys = 1'000}};

struct answer {
  int status = 200;
  canigo::duration retry_after{};
};

// A key takes some tens of bytes while it has fewer tokens than a new key; after that it takes no memory. A key needs
// no timer.
answer serve(const std::string& client) {
  if (!per_client.try_acquire(client)) return {429, per_client.retry_after(client)};
  return {};
}

asio::awaitable<void> client(std::string address, canigo::duration pause, int requests) {
  int served = 0, refused = 0;
  for (int i = 0; i < requests; ++i) {
    const answer a = serve(address);
    if (a.status == 200) {
      ++served;
    } else if (++refused == 1) {
      fmt::print("{:4} ms  {} gets 429, Retry-After: {} ms\n", now.elapsed() / 1ms, address, a.retry_after / 1ms);
    }
    co_await canigo::sleep_for(pause);
  }
  fmt::print("{:4} ms  {}: {} served, {} refused\n", now.elapsed() / 1ms, address, served, refused);
}

// A client whose requests wait instead of being refused: each request goes when the client's rate allows it.
asio::awaitable<void> patient(std::string address) {
  for (int i = 1; i <= 5; ++i) {
    co_await per_client.acquire(address, {.deadline = now.now() + 2s});
    fmt::print("{:4} ms  {}: request {}\n", now.elapsed() / 1ms, address, i);
  }
}

// Requests from new addresses, more than the table can hold.
asio::awaitable<void> flood() {
  co_await canigo::sleep_for(4900ms);  // the fast client continues meanwhile, so its key can't be dropped
  int served = 0;
  for (int i = 0; i < 100'000; ++i) served += serve(fmt::format("bot {}", i)).status == 200 ? 1 : 0;
  const bool is_old_served = serve("198.51.100.7").status == 200;
  fmt::print("{:4} ms  100,000 bots: {} served, {} keys known; an old client is served: {}\n", now.elapsed() / 1ms,
             served, per_client.stats().keys, is_old_served);
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

int main() {
  asio::co_spawn(io, client("192.0.2.1", 600ms, 8), rethrow);      // this client sends more slowly than its rate allows
  asio::co_spawn(io, client("198.51.100.7", 10ms, 500), rethrow);  // this client sends far faster than its rate allows
  asio::co_spawn(io, patient("203.0.113.5"), rethrow);
  asio::co_spawn(io, flood(), rethrow);
  now.run();
}
