#pragma once

#include "explorer.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

/// Counts how much was explored. At the end it is printed, and compared with the demand: INTERLEAVING_DEMAND='2:30 3:10
/// all:1000000' demands 30 models that were explored completely with two preemptions, 10 with three, and a million
/// schedules in total. Otherwise the program fails.
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
  // By the number of preemptions, how many models were explored completely up to that number.
  std::map<int, std::uint64_t> completed_;
};

/// Runs a model under every schedule with `preemptions` preemptions. Then it tries one more each time, until there are
/// too many schedules or no further ones. Then it runs some random schedules, and some by priorities. The address
/// sanitizer makes a run twenty times slower, so it gets fewer runs.
///
/// The environment has these settings. INTERLEAVING_RUNS: how many schedules are not too many (20,000); half as many
/// are tried at random, and by priorities. INTERLEAVING_SEED (1). INTERLEAVING_MODE: only depth-first, random or
/// priorities.
/// INTERLEAVING_REPLAY: a single schedule, as the report of a failure contains it.
void explore(int preemptions, const interleaving::model& m);
