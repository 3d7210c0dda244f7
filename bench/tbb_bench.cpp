// The benchmarks of pools with TBB: short operations in a task_group (B7), and operations submitted to an arena from
// another thread (B9).

#include "harness.hpp"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <atomic>
#include <thread>

namespace {

constexpr std::int64_t many = 500'000;
constexpr std::int64_t burst = 64;

std::atomic<std::uint64_t> work{0};
void operation() { work.fetch_add(1, std::memory_order_relaxed); }

bench::sample in_bursts() {
  tbb::task_arena one{1};
  tbb::task_group group;
  return bench::measure(many, [&] {
    one.execute([&] {
      for (std::int64_t done = 0; done < many; done += burst) {
        for (std::int64_t i = 0; i < burst; ++i) group.run(operation);
        group.wait();
      }
    });
  });
}

bench::sample from_outside() {
  const tbb::global_control threads{tbb::global_control::max_allowed_parallelism, 3};
  tbb::task_arena two{2, 0};
  const auto before = work.load();
  return bench::measure(many, [&] {
    for (std::int64_t i = 0; i < many; ++i) two.enqueue(operation);
    while (work.load() < before + many) std::this_thread::yield();
  });
}

}  // namespace

int main() {
  bench::match{"B7", "a short operation, one thread, 64 at a time"}.add("C++: TBB task_group", in_bursts).run(7);
  bench::match{"B9", "a short operation from another thread"}.add("C++: TBB task_arena.enqueue", from_outside).run(7);
}
