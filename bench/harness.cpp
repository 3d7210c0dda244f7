#include "harness.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <time.h>

namespace {

/// The counters of one thread. No other thread writes them, so counting is cheap: two atomic read-modify-write steps
/// per allocation would take a twentieth of the time of an HTTP request, and the libraries that are compared count
/// nothing.
struct alignas(64) tally {
  std::atomic<std::uint64_t> allocated{0};
  std::atomic<std::int64_t> in_use{0};
};
constinit std::array<tally, 1024> tallies;
constinit std::atomic<std::size_t> threads{0};

tally& own_tally() noexcept {
  static constinit thread_local tally* own = nullptr;
  if (own == nullptr) {
    const std::size_t index = threads.fetch_add(1);
    if (index >= tallies.size()) std::abort();  // no benchmark has more threads than that
    own = &tallies[index];
  }
  return *own;
}

template <class Number>
void add(std::atomic<Number>& to, Number n) noexcept {
  to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

template <class Number>
Number sum(std::atomic<Number> tally::* of) noexcept {
  Number s = 0;
  for (std::size_t i = 0; i < threads; ++i) s += (tallies[i].*of).load(std::memory_order_relaxed);
  return s;
}

std::int64_t size_of(void* p) noexcept { return static_cast<std::int64_t>(malloc_usable_size(p)); }

void* note(void* p) noexcept {
  tally& t = own_tally();
  add<std::uint64_t>(t.allocated, 1);
  add(t.in_use, size_of(p));
  return p;
}

const char* setting(const char* name) { return std::getenv(name); }

}  // namespace

// glibc's own functions, which the replacements below call. operator new calls malloc, and Asio calls aligned_alloc.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t size) { return note(__libc_malloc(size)); }
void* calloc(std::size_t count, std::size_t size) { return note(__libc_calloc(count, size)); }
void* aligned_alloc(std::size_t alignment, std::size_t size) { return note(__libc_memalign(alignment, size)); }
void free(void* p) {
  add(own_tally().in_use, -size_of(p));
  __libc_free(p);
}
}

namespace bench {

std::uint64_t allocations() noexcept { return sum(&tally::allocated); }

std::int64_t bytes_in_use() noexcept { return sum(&tally::in_use); }

std::chrono::nanoseconds cpu_time() noexcept {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
}

match& match::add(std::string name, std::function<sample()> repetition) {
  contestants_.push_back({std::move(name), std::move(repetition)});
  return *this;
}

bool match::wanted() const {
  const char* only = setting("BENCH_ONLY");
  return (only == nullptr || id_ == only) && setting("BENCH_LIST") == nullptr;
}

void match::run(int repetitions) const {
  if (setting("BENCH_LIST") != nullptr) {
    for (const auto& c : contestants_) fmt::print("{} {}\n", id_, c.name);
  }
  if (!wanted()) return;
  if (warm_up_) {
    for (const auto& c : contestants_) c.repetition();
  }
  if (setting("BENCH_JSON") != nullptr) {
    for (const auto& c : contestants_) print_line(c, c.repetition());
    return;
  }
  std::vector<std::vector<sample>> results(contestants_.size());
  for (int i = 0; i < repetitions; ++i) {
    for (std::size_t c = 0; c < contestants_.size(); ++c) results[c].push_back(contestants_[c].repetition());
  }
  print_table(results);
}

void match::print_line(const contestant& c, const sample& s) const {
  fmt::print(R"({{"id":"{}","name":"{}","ns":{},"allocs":{})", id_, c.name, s.ns_per_operation,
             s.allocations_per_operation);
  if (s.bytes_per_operation != 0) fmt::print(R"(,"bytes":{})", s.bytes_per_operation);
  if (s.share_of_rate != 0) fmt::print(R"(,"reached":{},"cpu":{})", s.share_of_rate, s.cpu);
  if (s.peak != 0) fmt::print(R"(,"peak":{})", s.peak);
  if (s.p99_ns != 0) fmt::print(R"(,"p99_ns":{})", s.p99_ns);
  if (!s.goodput.empty()) {
    fmt::print(R"(,"p99":{},"goodput":{{)", s.p99);
    for (std::size_t i = 0; i < s.goodput.size(); ++i) {
      fmt::print(R"({}"{}":{})", i > 0 ? "," : "", s.goodput[i].first, s.goodput[i].second);
    }
    fmt::print("}}");
  }
  fmt::print("}}\n");
  std::fflush(stdout);
}

void match::print_table(std::vector<std::vector<sample>>& results) const {
  fmt::print("{} {}\n", id_, work_);
  double ours = 0;
  for (std::size_t c = 0; c < contestants_.size(); ++c) {
    auto& r = results[c];
    std::sort(r.begin(), r.end(),
              [](const sample& a, const sample& b) { return a.ns_per_operation < b.ns_per_operation; });
    const sample& median = r[r.size() / 2];
    if (!median.goodput.empty()) {
      double all = 0;
      for (const auto& [trace, share] : median.goodput) all += share;
      fmt::print("  {:<44} {:>9.1f} % of the goodput  p99: {:.1f} times\n", contestants_[c].name,
                 100 * all / static_cast<double>(median.goodput.size()), median.p99);
      continue;
    }
    if (c == 0) ours = median.ns_per_operation;
    fmt::print("  {:<44} {:>9.1f} ns  ({:.1f} … {:.1f})  {:>6.2f} allocations", contestants_[c].name,
               median.ns_per_operation, r.front().ns_per_operation, r.back().ns_per_operation,
               median.allocations_per_operation);
    if (median.bytes_per_operation != 0) fmt::print("  {:.0f} bytes", median.bytes_per_operation);
    if (median.p99_ns != 0) fmt::print("  p99: {:.1f} ns", median.p99_ns);
    if (median.share_of_rate != 0) {
      fmt::print("  {:.3f} % of the rate at {:.1f} % CPU", 100 * median.share_of_rate, 100 * median.cpu);
    }
    if (median.peak != 0) fmt::print("  in 100 ms: {:.2f} times", median.peak);
    if (c > 0) fmt::print("   ours / this: {:.2f}", ours / median.ns_per_operation);
    fmt::print("\n");
  }
}

}  // namespace bench
