#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

/// What one repetition of a contestant measured.
struct sample {
  double ns_per_operation = 0;
  double allocations_per_operation = 0;
};

/// Heap allocations of this process so far, of all kinds.
std::uint64_t allocations() noexcept;

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
class match {
 public:
  match(std::string id, std::string work) : id_{std::move(id)}, work_{std::move(work)} {}

  /// The first contestant is us; the others are what we are compared with.
  match& add(std::string name, std::function<sample()> repetition);

  /// Warms each up once, then runs all of them `repetitions` times in turn, and prints medians, spread and ratios.
  void run(int repetitions) const;

 private:
  struct contestant {
    std::string name;
    std::function<sample()> repetition;
  };

  std::string id_;
  std::string work_;
  std::vector<contestant> contestants_;
};

/// The process's CPU time, all threads.
std::chrono::nanoseconds cpu_time() noexcept;

}  // namespace bench
