// Checks whether a short operation costs the same in one of many pools as in a single pool (S4).

#include "canigo/strand_pool.hpp"

#include "harness.hpp"

#include <asio/io_context.hpp>
#include <fmt/format.h>

#include <deque>

namespace net = canigo::net;

namespace {

constexpr int operations = 500'000;
constexpr int at_once = 64;

std::uint64_t work = 0;
void operation() { ++work; }

/// Measures 64 operations that are submitted to one pool after the other, and then run.
bench::sample in_turn(net::io_context& io, std::deque<canigo::strand_pool>& pools) {
  return bench::measure(operations, [&] {
    auto pool = pools.begin();
    for (int done = 0; done < operations; done += at_once) {
      for (int i = 0; i < at_once; ++i) (void)pool->try_post(operation);
      if (++pool == pools.end()) pool = pools.begin();
      io.restart();
      io.poll();
    }
  });
}

}  // namespace

int main() {
  for (const int count : {1, 10, 100, 1'000, 10'000}) {
    net::io_context io{1};
    std::deque<canigo::strand_pool> pools;
    const bench::match m = bench::match{fmt::format("S4-{}", count), fmt::format("{} pools in turn", count)}.add(
        "strand_pool(1).try_post", [&] { return in_turn(io, pools); });
    if (m.wanted()) {
      for (int i = 0; i < count; ++i) pools.emplace_back(io, canigo::strand_pool_options{.concurrency = 1});
    }
    m.run(7);
  }
}
