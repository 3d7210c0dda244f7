#include "interleaving_test.hpp"

#include <fmt/core.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CANIGO_IS_SLOW 1
#endif
#endif
#ifndef CANIGO_IS_SLOW
#define CANIGO_IS_SLOW 0
#endif

tally& tally::of_all() {
  static tally t;
  return t;
}

tally::~tally() {
  if (models > 0) fmt::print("{} models, {} schedules\n", models, runs);
}

namespace {

std::uint64_t explored(const interleaving::search& how, const interleaving::model& m) {
  const interleaving::verdict v = interleaving::explorer::explore(how, m);
  tally::of_all().runs += v.runs;
  INFO("run " << v.runs << ": " << v.failure << "\n" << v.schedule);
  REQUIRE(v.ok());
  return v.runs;
}

}  // namespace

void explore(int preemptions, const interleaving::model& m) {
  const bool is_slow = CANIGO_IS_SLOW != 0;
  ++tally::of_all().models;
  explored({.random_runs = is_slow ? 200U : 10'000U}, m);
  if (is_slow) --preemptions;
  std::uint64_t before = 0;
  for (std::uint64_t runs = explored({.preemptions = preemptions}, m);
       runs > before && runs < (is_slow ? 500U : 20'000U); runs = explored({.preemptions = ++preemptions}, m)) {
    before = runs;
  }
}
