#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// What one repetition of a contestant measured; what is 0 or empty, from the third on, was not.
struct sample {
  double ns_per_operation = 0;
  double allocations_per_operation = 0;
  double bytes_per_operation = 0;
  double share_of_rate = 0;  ///< reached, of what was wanted
  double cpu = 0;            ///< cores that were busy meanwhile
  double p99_ns = 0;         ///< the 99th percentile of what ns_per_operation is the median of
  /// In each trace, of the most that is possible. No time counts then.
  std::vector<std::pair<std::string, double>> goodput = {};
  double p99 = 0;  ///< the 99th percentile of the latency, as a multiple of an idle service's, in the worst trace
};

/// Heap allocations of this process so far, of all kinds.
std::uint64_t allocations() noexcept;

/// What is allocated and not freed.
std::int64_t bytes_in_use() noexcept;

/// Times `operations` of something that `f` does, all in one call.
template <class Function>
sample measure(std::int64_t operations, Function&& f) {
  const std::uint64_t allocated = allocations();
  const auto start = std::chrono::steady_clock::now();
  f();
  const auto spent = std::chrono::steady_clock::now() - start;
  const auto n = static_cast<double>(operations);
  return {std::chrono::duration<double, std::nano>(spent).count() / n,
          static_cast<double>(allocations() - allocated) / n};
}

/// One piece of work, done by us and by others in turn: only ratios out of one run mean anything on a shared machine.
///
/// bench/run has one repetition at a time from each program, and says so in the environment: BENCH_ONLY names one id,
/// and BENCH_JSON asks for a line per contestant instead of the table; BENCH_LIST asks for ids and names only.
class match {
 public:
  match(std::string id, std::string work) : id_{std::move(id)}, work_{std::move(work)} {}

  /// The first contestant is us; the others are what we are compared with.
  match& add(std::string name, std::function<sample()> repetition);

  /// For what takes a second anyway.
  match& without_warm_up() {
    warm_up_ = false;
    return *this;
  }

  /// Whether anything of this is wanted: where preparing it takes long.
  bool wanted() const;

  /// Warms each up once, then runs all of them `repetitions` times in turn, and prints medians, spread and ratios.
  void run(int repetitions) const;

 private:
  struct contestant {
    std::string name;
    std::function<sample()> repetition;
  };

  void print_line(const contestant& c, const sample& s) const;
  void print_table(std::vector<std::vector<sample>>& results) const;

  std::string id_;
  std::string work_;
  std::vector<contestant> contestants_;
  bool warm_up_ = true;
};

/// The process's CPU time, all threads.
std::chrono::nanoseconds cpu_time() noexcept;

}  // namespace bench
