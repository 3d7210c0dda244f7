// Writes which mutants each test case has reached to CANIGO_CASES. scripts/mutate adds this to Catch2's main.
#pragma once

#include "mutation/mutation.hpp"

#include <chrono>
#include <fstream>

struct reach_of_cases : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo&) override { start = std::chrono::steady_clock::now(); }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (!std::getenv("CANIGO_CASES")) return;
    std::ofstream out{std::getenv("CANIGO_CASES"), std::ios::app};
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    out << passed.count() << '\t' << stats.totals.assertions.failed << '\t' << stats.testInfo.name << '\t';
    for (int i = 0; i < canigo_mutation::most; ++i) {
      if (canigo_mutation::reached[i]) out << ' ' << i;
      canigo_mutation::reached[i] = 0;
    }
    out << '\n';
  }

  std::chrono::steady_clock::time_point start;
};
CATCH_REGISTER_LISTENER(reach_of_cases)
