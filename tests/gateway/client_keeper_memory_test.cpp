// A client is kept while memory runs out at any point. A program of its own, as it replaces the heap.

#include "canigo/timeout.hpp"

#include "gateway/kept_run.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <cstdint>

using namespace allocations;
using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// Keeps a client through two waits, of which the first may throw, while the k-th allocation fails. Returns whether one
/// has failed. Spared are the blocks that Asio takes for frames and for operations under co_await, and what its timers
/// take when they are first used: it takes these out of functions that are noexcept.
bool keeps_without_memory(std::int64_t k, bool throws) {
  kept_run kept;
  kept.text.assign(std::size_t{1} << 20, 'x');  // more than a socket takes at once
  kept.results.reserve(2);
  const auto wait = [&](bool breaks) -> net::awaitable<bool> {
    co_await sleep_for(3'500ms);
    if (breaks) throw std::bad_alloc{};
    co_return true;
  };
  const auto body = [&](gateway::client_keeper& keeper) -> net::awaitable<void> {
    for (int i = 0; i < 2; ++i) {
      auto waiting = keeper.keep_during(wait(throws && i == 0));
      const bool is_granted = co_await std::move(waiting);
      kept.results.push_back(is_granted);
    }
  };
  kept.go({.after = 1s, .every = 1s}, body);
  kept.run->time.run_for(500ms);
  failing f{k, unaligned};
  for (int i = 0; i < 200 && !kept.has_ended; ++i) {
    kept.run->time.run_for(50ms);
    while (kept.take() > 0) kept.run->time.poll();
  }
  const bool has_ended = kept.has_ended;
  const std::size_t texts = kept.made_at.size();
  kept.run->time.run_for(10s);
  const bool has_failed = f.stop();
  CHECK(has_ended);
  CHECK(kept.made_at.size() == texts);
  CHECK((has_failed || texts == (throws ? 3 : 6)));
  return has_failed;
}

}  // namespace

TEST_CASE("a client is kept without memory, or its call ends, and then nothing is written any more", "[memory]") {
  const bool throws = GENERATE(false, true);
  (void)keeps_without_memory(1'000'000, throws);
  const std::int64_t before = live;
  const std::int64_t tried = for_every_allocation([&](std::int64_t k) { return keeps_without_memory(k, throws); });
  const std::int64_t left = live - before;
  CHECK(tried > 1);
  CHECK(left < 20);
}
