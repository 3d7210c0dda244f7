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

/// The part of an adaptive limit that decides: a control and its lock. It belongs to the limit's engine.
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

  /// Sets the wall clock, before the first call: a time plus `to_wall` is the time of the wall clock.
  void align(duration to_wall) noexcept;

  std::uint64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  /// A call starts. Returns how many are under way, this one included.
  std::uint64_t begin() noexcept { return in_flight_.fetch_add(1, std::memory_order_relaxed) + 1; }
  /// Called when a call has ended. Gives its place back. Without an outcome the call is no sample.
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
