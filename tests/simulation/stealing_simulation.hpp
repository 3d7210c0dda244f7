#pragma once

#include "canigo/testing/virtual_time.hpp"
#include "canigo/time.hpp"

#include "support/stealing_context.hpp"

#include <cstddef>
#include <cstdint>

namespace simulated {

/// Replaces testing::simulation for these worlds on work_stealing: an io_context in virtual time.
///
/// There is one thread. But a function may run turns of the loop inside itself, as if another thread ran them at the
/// same time. So there are several pumps, which steal from each other. The seed determines the order of the functions.
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
  /// Adds functions that run turns of the loop inside themselves, or none.
  void disturb();

  std::uint64_t state_;
  stealing_context io_;
  canigo::testing::virtual_time time_{io_};
};

}  // namespace simulated
