#pragma once

#include "canigo/algorithms/circuit.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"

#include <cstdint>
#include <optional>

namespace canigo::gateway {

/// Calls that try an upstream whose breaker was open.
inline constexpr int breaker_probes = 3;

/// The circuit breaker of an upstream. It bounds the places of the limit that calls wait for.
///
/// No call is refused while it is open: calls wait on in their queue, which is paused. Then the first calls of the
/// queue get as many places as there are probes to make. So the cap of the limit follows the calls that are under way.
/// Threads: not safe by itself; its owner holds a lock. Takes constant time. Allocates: never.
class upstream_breaker {
 public:
  /// One call that is under way.
  struct pass {
    circuit::epoch epoch = 0;
    std::uint64_t generation = 0;  // the generation of the options that the call began with
    std::uint64_t probe_of = 0;    // the number of the change to half-open that it probes; 0: it is no probe
    bool has_reported = false;
  };

  /// `ahead`: how many calls may have a place of the limit before they enter, because they wait for something else.
  upstream_breaker(const breaker_options& o, std::uint64_t ahead, time_point now);

  /// A call with a place of the limit begins. Nothing: it has to give the place back and wait again.
  [[nodiscard]] std::optional<pass> enter(time_point now) noexcept;
  /// Reports whether the call has failed. Only the first report of a call counts. True: the breaker opens because of
  /// it.
  bool report(pass& p, bool failed, time_point now) noexcept;
  /// Call it when the call has ended. Without a report, the call says nothing about the upstream.
  void leave(const pass& p) noexcept;

  /// Begins again with other options, closed. The calls that are under way do not count.
  void configure(const breaker_options& o, time_point now);

  /// How many places of the limit may be taken, those of the calls under way included.
  std::uint64_t cap(time_point now) const noexcept;
  circuit_state state(time_point now) const noexcept { return circuit_.state(now); }
  /// The time before which no call is let through; min(): the breaker is not open.
  time_point open_until(time_point now) const noexcept;
  std::uint64_t under_way() const noexcept { return inside_; }

 private:
  bool is_probing(const pass& p) const noexcept;

  circuit circuit_;
  breaker_options options_;
  std::uint64_t ahead_;
  std::uint64_t generation_ = 1;
  std::uint64_t inside_ = 0;   // calls under way
  std::uint64_t probing_ = 0;  // probes under way without a report, since the last change of state
};

}  // namespace canigo::gateway
