#pragma once

// The traces on which adaptive limits are tested, and the judgement of the results.

#include "service.hpp"

#include <vector>

namespace adaptive {

struct row {
  trace t;
  double goodput = 90;  // the min goodput of the knee algorithm, in percent of that of the best fixed limits
  double single = 80;   // the same bound for a single seed
  double p99 = 3.5;     // the max 99th percentile, as a multiple of that of the unloaded service
  bool settles = true;  // whether the time to find the right limit is judged
};

/// The twelve traces.
std::vector<row> rows();
/// Traces with calls of 10 ms to a callee of unlimited capacity. Some calls get no answer, independent of the load.
std::vector<row> rows_of_losses();

/// The best fixed limit for a phase, and its goodput.
struct best {
  double good = 0;
  double limit = 0;
};

/// Finds the best fixed limit for each phase of the trace, by trial.
std::vector<best> best_fixed(const trace& t);

struct score {
  double goodput = 0;           // the goodput, in percent of that of the best fixed limits
  double p99 = 0;               // the 99th percentile in the worst phase, as a multiple of that of the unloaded service
  std::vector<double> settled;  // the seconds until the limit was right, for each phase
  double inside = 1;  // the share of the time after `settled` during which the limit was right, in the worst phase
};

score judge(const trace& t, const std::vector<best>& bests, const std::vector<tally>& tallies);

}  // namespace adaptive
