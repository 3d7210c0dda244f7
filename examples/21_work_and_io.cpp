// Computing and waiting on the threads of one pool. The computation splits itself into halves, which any thread may
// take. A periodic timer continues meanwhile, although no thread is reserved for it.
#include <canigo/thread_pool.hpp>
#include <canigo/timeout.hpp>

#include <asio.hpp>
#include <fmt/core.h>

#include <atomic>
#include <cstdint>

using namespace std::chrono_literals;

/// Counts the primes among the `n` numbers from `first` on.
std::int64_t primes(std::int64_t first, std::int64_t n) {
  std::int64_t found = 0;
  for (std::int64_t i = first; i < first + n; ++i) {
    std::int64_t d = 2;
    while (d * d <= i && i % d != 0) ++d;
    if (i > 1 && d * d > i) ++found;
  }
  return found;
}

/// Adds the number of primes in the range to `found`. Splits the range repeatedly into halves; each half is a separate
/// task.
void count(canigo::thread_pool& pool, std::int64_t first, std::int64_t n, std::atomic<std::int64_t>& found) {
  if (n <= 1000) {
    found += primes(first, n);
    return;
  }
  asio::post(pool, [&pool, first, n, &found] { count(pool, first, n / 2, found); });
  asio::post(pool, [&pool, first, n, &found] { count(pool, first + n / 2, n - n / 2, found); });
}

asio::awaitable<void> beat(std::atomic<int>& beats) {
  for (int i = 0; i < 3; ++i) {
    co_await canigo::sleep_for(2ms);
    ++beats;
  }
}

int main() {
  canigo::thread_pool pool{2};
  std::atomic<std::int64_t> found{0};
  std::atomic<int> beats{0};
  asio::co_spawn(pool, beat(beats), asio::detached);
  count(pool, 0, 200'000, found);
  pool.join();
  fmt::print("{} primes, {} beats\n", found.load(), beats.load());
}
