#pragma once

#include "canigo/algorithms/circuit.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"

#include <cstdint>
#include <optional>

namespace canigo::gateway {

/// The number of calls that probe an upstream after its circuit breaker has been open.
inline constexpr int breaker_probes = 3;

/// The circuit breaker of an upstream. It determines how many concurrent calls the upstream's limit allows: see cap().
///
/// While the breaker is open, no call is refused: the limit is paused, and calls wait in its queue. When the pause
/// ends, the limit lets through only as many waiting calls as probes are needed. For this purpose cap() depends on the
/// number of running calls. Threads: not thread-safe; its owner must hold a lock. Takes constant time. Allocates:
/// never.
class upstream_breaker {
 public:
  /// The state that the breaker keeps for one running call.
  struct pass {
    circuit::epoch epoch = 0;
    std::uint64_t generation = 0;  // the value of generation_ when the call began. configure() may increment it.
    // If the call is a probe: the number of the state change that began the half-open state of this probe. 0: the call
    // is no probe.
    std::uint64_t probe_of = 0;
    bool has_reported = false;
  };

  /// `ahead`: the max number of calls that may hold a permit of the limit and have not called enter() yet. With shared
  /// limits, such a call still waits for Redis.
  upstream_breaker(const breaker_options& o, std::uint64_t ahead, time_point now);

  /// Starts a call that holds a permit of the limit. Returns nothing if the breaker does not let the call through; then
  /// the caller must give the permit back and wait again.
  [[nodiscard]] std::optional<pass> enter(time_point now) noexcept;
  /// Reports whether the call has failed. Only the first report of a call counts. Returns true if this report opens the
  /// breaker.
  bool report(pass& p, bool failed, time_point now) noexcept;
  /// Call it if the response of a call broke off after the call had reported a success. Counts the call as failed.
  /// Returns true if this opens the breaker.
  bool report_broken_off(const pass& p, time_point now) noexcept;
  /// Ends the call. A call that ends without a report counts neither as a success nor as a failure.
  void leave(const pass& p) noexcept;

  /// If `o` differs from the present options, restarts the breaker with `o` in the closed state. In that case, the
  /// results of calls that are running now are ignored.
  void configure(const breaker_options& o, time_point now);

  /// Returns the cap for the limit: how many permits calls may hold, including those of the running calls.
  std::uint64_t cap(time_point now) const noexcept;
  circuit_state state(time_point now) const noexcept { return circuit_.state(now); }
  /// Returns when the breaker stops being open; min() if it is not open.
  time_point open_until(time_point now) const noexcept;
  std::uint64_t under_way() const noexcept { return inside_; }

 private:
  bool is_probing(const pass& p) const noexcept;

  circuit circuit_;
  breaker_options options_;
  std::uint64_t ahead_;
  std::uint64_t generation_ = 1;
  std::uint64_t inside_ = 0;   // the number of running calls
  std::uint64_t probing_ = 0;  // the number of probes of the present half-open state that have not reported
};

}  // namespace canigo::gateway
