#include "harness.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <time.h>

namespace {
std::atomic<std::uint64_t> allocated{0};
}

// glibc's own entry points: operator new ends in malloc, Asio's allocations in aligned_alloc.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  allocated.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  allocated.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  allocated.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, size);
}
}

namespace bench {

std::uint64_t allocations() noexcept { return allocated.load(std::memory_order_relaxed); }

std::chrono::nanoseconds cpu_time() noexcept {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
}

match& match::add(std::string name, std::function<sample()> repetition) {
  contestants_.push_back({std::move(name), std::move(repetition)});
  return *this;
}

void match::run(int repetitions) const {
  std::vector<std::vector<sample>> results(contestants_.size());
  for (const auto& c : contestants_) c.repetition();
  for (int i = 0; i < repetitions; ++i) {
    for (std::size_t c = 0; c < contestants_.size(); ++c) results[c].push_back(contestants_[c].repetition());
  }
  fmt::print("{} {}\n", id_, work_);
  double ours = 0;
  for (std::size_t c = 0; c < contestants_.size(); ++c) {
    auto& r = results[c];
    std::sort(r.begin(), r.end(),
              [](const sample& a, const sample& b) { return a.ns_per_operation < b.ns_per_operation; });
    const sample& median = r[r.size() / 2];
    if (c == 0) ours = median.ns_per_operation;
    fmt::print("  {:<44} {:>9.1f} ns  ({:.1f} … {:.1f})  {:>6.2f} allocations", contestants_[c].name,
               median.ns_per_operation, r.front().ns_per_operation, r.back().ns_per_operation,
               median.allocations_per_operation);
    if (c > 0) fmt::print("   ours / this: {:.2f}", ours / median.ns_per_operation);
    fmt::print("\n");
  }
}

}  // namespace bench
