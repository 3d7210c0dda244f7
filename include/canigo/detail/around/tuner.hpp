#pragma once

#include "canigo/algorithms/aimd.hpp"
#include "canigo/algorithms/knee.hpp"
#include "canigo/algorithms/limit_sample.hpp"
#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/permit.hpp"
#include "canigo/time.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <variant>

namespace canigo::detail {

/// The controller of an adaptive limit: its algorithm, with a lock. The engine of the limit owns it.
class tuner final : public companion {
 public:
  struct readings {
    std::uint64_t limit = 0;
    duration baseline{};
    duration latency{};
    limit_decision last_decision{};
    std::uint64_t succeeded = 0, dropped = 0, cancelled = 0, unreported = 0;
  };

  tuner(const limit_bounds& bounds, const std::variant<knee, aimd>& algorithm);

  /// Sets the difference between the wall clock and the engine's clock. Call it before the first call begins.
  void align(duration to_wall) noexcept;

  std::uint64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  /// Counts a call that starts. Returns the number of calls under way, including this one.
  std::uint64_t begin() noexcept { return in_flight_.fetch_add(1, std::memory_order_relaxed) + 1; }
  /// Call it when a call has ended. Gives the call's slot back. Without `how`, the algorithm ignores the call.
  void end(admission& home, permit place, limit_sample s, std::optional<sample_outcome> how) noexcept;
  readings read() const noexcept;
  duration latency() const noexcept;

 private:
  bool record(const limit_sample& s, time_point now) noexcept;

  const limit_bounds bounds_;
  mutable mutex mutex_;
  std::variant<knee_control, aimd_control> control_;
  readings counts_{};
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> in_flight_{0};
};

inline tuner& tuner_of(const admission& home) noexcept { return static_cast<tuner&>(*home.beside()); }

}  // namespace canigo::detail
