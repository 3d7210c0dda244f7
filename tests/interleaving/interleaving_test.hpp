#pragma once

#include "catch.hpp"
#include "explorer.hpp"

#include <cstdint>

/// How much was tried in all; printed at the end.
struct tally {
  std::uint64_t models = 0;
  std::uint64_t runs = 0;
  ~tally();
  static tally& of_all();
};

/// Runs a model under every schedule with so many preemptions, then with one more each time until that is too many to
/// try or all there are, and under some at random. The address sanitizer makes a run twenty times as slow, so it gets
/// fewer.
void explore(int preemptions, const interleaving::model& m);
