#pragma once

#include "explorer.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

/// How much was tried in all; printed at the end, where it is also compared with what was demanded:
/// INTERLEAVING_DEMAND='2:30 3:10 all:1000000' wants 30 models explored to the end with two preemptions, 10 with three,
/// and a million schedules in all, or the program fails.
class tally {
 public:
  static tally& of_all();
  void add_model(int completed_preemptions);
  void add_runs(const interleaving::search& how, std::uint64_t runs);

 private:
  tally() = default;
  ~tally();
  bool meets(const std::string& demand) const;
  std::uint64_t models_to_the_end(int preemptions) const;
  std::uint64_t all_runs() const;

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::uint64_t models_ = 0;
  std::map<interleaving::by, std::uint64_t> runs_;
  std::map<int, std::uint64_t> completed_;  // by preemptions: how many models came to no more than that
};

/// Runs a model under every schedule with so many preemptions, then with one more each time until that is too many to
/// try or all there are; then under some at random and some by priorities. The address sanitizer makes a run twenty
/// times as slow, so it gets fewer.
///
/// From the environment: INTERLEAVING_RUNS, how many schedules are not too many to try (20,000); half as many are tried
/// at random, and by priorities. INTERLEAVING_SEED (1). INTERLEAVING_MODE: only depth-first, random or priorities.
/// INTERLEAVING_REPLAY: one schedule, as the report of a failure has it.
void explore(int preemptions, const interleaving::model& m);
