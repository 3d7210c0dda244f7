#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// The measurements of one repetition of one contestant. From the third member on, 0 or empty means "not measured".
struct sample {
  double ns_per_operation = 0;
  double allocations_per_operation = 0;
  double bytes_per_operation = 0;
  double share_of_rate = 0;  ///< the reached share of the wanted rate
  double cpu = 0;            ///< the number of cores that were busy meanwhile
  double peak = 0;           ///< the most of any 100 ms, as a multiple of the rate
  double p99_ns = 0;         ///< the 99th percentile; ns_per_operation is the median
  /// For each trace, the share of the best possible goodput. If it is set, no time is reported.
  std::vector<std::pair<std::string, double>> goodput = {};
  double p99 = 0;  ///< the 99th percentile of the latency in the worst trace, as a multiple of an idle service's
};

/// Returns the number of heap allocations of this process so far, of all kinds.
std::uint64_t allocations() noexcept;

/// Returns the number of bytes that are allocated and not freed.
std::int64_t bytes_in_use() noexcept;

/// Measures one call of `f`, which does `operations` operations.
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

/// A benchmark that several contestants run in turn. Only ratios from the same run are comparable on a shared machine.
///
/// bench/run asks each program for one repetition at a time, by environment variables: BENCH_ONLY names one benchmark,
/// BENCH_JSON asks for a line per contestant instead of the table, and BENCH_LIST asks only for ids and names.
class match {
 public:
  match(std::string id, std::string work) : id_{std::move(id)}, work_{std::move(work)} {}

  /// Adds a contestant. The first contestant is canigo. Its results are compared with the results of the others.
  match& add(std::string name, std::function<sample()> repetition);

  /// Skips the warm-up, for a benchmark that takes a second anyway.
  match& without_warm_up() {
    warm_up_ = false;
    return *this;
  }

  /// Whether this benchmark will run. Call it before an expensive preparation.
  bool wanted() const;

  /// Warms each contestant up once, runs all of them `repetitions` times in turn, and prints medians, spread and
  /// ratios.
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

/// Returns the CPU time of the process, summed over all threads.
std::chrono::nanoseconds cpu_time() noexcept;

}  // namespace bench
