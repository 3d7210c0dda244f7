#pragma once

// What an adaptive limit is tried with, and how what came of it is judged.

#include "service.hpp"

#include <vector>

namespace adaptive {

struct row {
  trace t;
  double goodput = 90;  // bounds of the knee, in percent of the best fixed limits'
  double single = 80;   // the same for one seed
  double p99 = 3.5;     // times the unloaded
  bool settles = true;  // whether the time until the limit is right counts
};

/// The twelve traces.
std::vector<row> rows();
/// Calls of 10 ms to a callee that can do any number at a time. Some get no answer, whatever the load is.
std::vector<row> rows_of_losses();

/// The best fixed limit for a phase, and the goodput with it.
struct best {
  double good = 0;
  double limit = 0;
};

/// For each phase of the trace, found by trial.
std::vector<best> best_fixed(const trace& t);

struct score {
  double goodput = 0;           // percent of the best
  double p99 = 0;               // times the unloaded, in the worst phase
  std::vector<double> settled;  // seconds until the limit is right, in each phase
  double inside = 1;            // the share of the time after that in which it is right, in the worst phase
};

score judge(const trace& t, const std::vector<best>& bests, const std::vector<tally>& tallies);

}  // namespace adaptive
