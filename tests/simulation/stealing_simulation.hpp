#pragma once

#include "canigo/testing/virtual_time.hpp"
#include "canigo/time.hpp"

#include "support/stealing_context.hpp"

#include <cstddef>
#include <cstdint>

namespace simulated {

/// What testing::simulation is to these worlds, on work_stealing: an io_context in virtual time.
///
/// There is one thread. But a function may run turns of the loop from within, as if another thread ran them while the
/// function is under way. So there are several pumps, which take from each other, and the order of the functions
/// depends on the seed.
class stealing_simulation {
 public:
  using executor_type = stealing_context::executor_type;

  explicit stealing_simulation(std::uint64_t seed) noexcept : state_{seed} {}

  executor_type get_executor() noexcept { return io_.get_executor(); }
  canigo::time_point now() const noexcept { return time_.now(); }
  canigo::duration elapsed() const noexcept { return time_.elapsed(); }

  /// Runs one turn of a pump.
  bool step();
  std::size_t run() { return disturb(), time_.run(); }
  std::size_t run_until(canigo::time_point t) { return disturb(), time_.run_until(t); }
  std::size_t run_for(canigo::duration d) { return disturb(), time_.run_for(d); }
  std::size_t poll() { return disturb(), time_.poll(); }

 private:
  /// Adds functions that run turns from within, or none.
  void disturb();

  std::uint64_t state_;
  stealing_context io_;
  canigo::testing::virtual_time time_{io_};
};

}  // namespace simulated
