#pragma once

// Selects where the worlds of these programs run: on the library's own simulation, or on work_stealing in a program
// that is compiled for that.
#ifdef SIMULATED_ON_STEALING
#include "stealing_simulation.hpp"
namespace simulated {
using context = stealing_simulation;
inline constexpr bool is_on_stealing = true;
}  // namespace simulated
#else
#include "canigo/testing/simulation.hpp"
namespace simulated {
using context = canigo::testing::simulation;
inline constexpr bool is_on_stealing = false;
}  // namespace simulated
#endif
