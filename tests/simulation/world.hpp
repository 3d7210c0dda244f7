#pragma once

#include "plan.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace simulated {

struct verdict {
  bool is_good = true;
  std::size_t step = 0;  // the step at which a difference was found
  std::string what = {};
  std::uint64_t hash = 0;  // a hash of all events
  std::uint64_t acquires = 0;
  duration simulated{};
};

/// Runs a plan with the engine and with the model, and compares the results after every step.
verdict play(const plan& p);

}  // namespace simulated
