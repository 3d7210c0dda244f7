#pragma once

#include "canigo/limit_options.hpp"
#include "canigo/time.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace canigo {

/// The states of a circuit breaker. The state decides which calls pass.
enum class circuit_state : std::uint8_t {
  closed,         ///< all calls pass, and are counted
  open,           ///< all calls are refused
  half_open,      ///< a few calls pass as probes; other calls are refused
  forced_open,    ///< all calls are refused, because of force_open()
  forced_closed,  ///< all calls pass, because of force_closed()
};

constexpr std::string_view to_string(circuit_state s) noexcept {
  switch (s) {
    case circuit_state::closed:
      return "closed";
    case circuit_state::open:
      return "open";
    case circuit_state::half_open:
      return "half_open";
    case circuit_state::forced_open:
      return "forced_open";
    case circuit_state::forced_closed:
      return "forced_closed";
  }
  return "?";
}

class circuit_observer;

struct circuit_breaker_options {
  int failures = 50;               ///< percent of failed calls in the window at which the breaker opens; 1 to 100
  std::uint64_t least_calls = 20;  ///< the breaker opens only with at least this many calls in the window; 1 or more
  duration window = std::chrono::seconds{30};  ///< how long an ended call counts, exact to a tenth; 1 ms or more
  duration slow = duration::max();             ///< a call that takes longer counts as slow; more than 0
  int slow_percent = 80;  ///< percent of slow calls in the window at which the breaker opens; 1 to 100
  duration open_for = std::chrono::seconds{5};  ///< how long the breaker stays open the first time; more than 0
  duration most_open_for =
      std::chrono::seconds{60};  ///< upper bound of the open time, which doubles each time the probes fail
  int probes = 3;                ///< calls that may pass in the half-open state, to decide the next state; 1 to 1000
  /// Decides whether the exception of a call is a failure. Null: is_failure_of_callee(). Called with no lock held.
  bool (*failed_if)(const std::exception_ptr& error) = nullptr;
  circuit_observer* observer = nullptr;  ///< called when the state changes; must outlive the breaker and its calls
  /// In shadow mode the breaker refuses no call, and the statistics count the calls that it would otherwise refuse.
  enforcement mode = enforcement::enforce;
  std::string name = {};  ///< the breaker's name in error messages
};

/// A change of a circuit breaker's state, as reported to an observer.
struct circuit_change {
  circuit_state from = circuit_state::closed;
  circuit_state to = circuit_state::closed;
  time_point at{};
  duration open_for{};       ///< how long the circuit stays open after this change; max() after force_open()
  std::uint64_t number = 0;  ///< number of the change, from 1; an observer may get a later change first
};

/// The base class of observers. A circuit breaker reports its state changes to its observer, for logs and alarms.
///
/// Threads: several threads may call an observer at the same time, with no lock held. The functions of an observer must
/// not throw. They should return soon, because the call that changed the state waits for them.
class circuit_observer {
 public:
  virtual void state_changed(const circuit_change& change) noexcept = 0;

 protected:
  ~circuit_observer() = default;
};

/// The algorithm of a circuit breaker: its window, its states and the time for which it is open. This class is a value
/// type. It has no clock and no lock.
///
/// A closed circuit counts calls in a window of ten buckets, so a call counts for nine to ten tenths of `window`. The
/// circuit opens if the window has at least `least_calls` calls, and too many of them failed or were slow. After
/// `open_for` the circuit is half-open, and lets `probes` calls pass. It closes or opens again as soon as enough probes
/// have ended to decide. The percentages for the window also hold for the probes. Each time the probes fail, the next
/// open time of the circuit doubles, up to `most_open_for`. When the circuit closes, its open time becomes `open_for`
/// again.
///
/// A call belongs to the state in which it began. If the state has changed since then, the report of the call is
/// ignored. So a call that began before the circuit opened never counts as a probe.
///
/// Sources: M. Nygard, "Release It!", 2007; the time-based window of resilience4j; the generations of gobreaker.
/// Threads: not thread-safe; its owner must hold a lock. Takes constant time. Allocates: never.
class circuit {
 public:
  struct tally {
    std::uint64_t calls = 0;
    std::uint64_t failed = 0;
    std::uint64_t slow = 0;
  };
  /// The number of the circuit's state at the start of a call. Each change of the state changes the number. 0: the call
  /// is not counted.
  using epoch = std::uint64_t;

  /// Throws std::system_error (errc::invalid_argument) if an option is out of range; the text names it and the range.
  circuit(const circuit_breaker_options& options, time_point now);

  /// Returns the epoch for a new call, or std::nullopt if the call is refused.
  [[nodiscard]] std::optional<epoch> try_enter(time_point now) noexcept;
  /// Reports the end of a call. `e` is the result of try_enter() for this call.
  void report(epoch e, bool failed, bool slow, time_point now) noexcept;
  /// Call it if a call has failed after it was reported as a success: one success in the window becomes a failure. Call
  /// it at most once for a call. For a probe it has no effect.
  void report_late_failure(epoch e, time_point now) noexcept;
  /// Ends a call without a report; the call is not counted. If the call was a probe, another call may become a probe.
  void leave(epoch e) noexcept;

  void force_open(time_point now) noexcept { change_to(circuit_state::forced_open, now); }
  void force_closed(time_point now) noexcept { change_to(circuit_state::forced_closed, now); }
  /// Closes the circuit and empties the window. When the circuit opens the next time, it stays open for the time of the
  /// option `open_for`.
  void reset(time_point now) noexcept;

  /// The current state; an open circuit counts as half-open as soon as `open_for` has passed.
  circuit_state state(time_point now) const noexcept;
  /// For how long at least all calls will be refused: 0 if the circuit is not open, max() after force_open().
  duration open_for(time_point now) const noexcept;
  /// The calls that count at `now`. Closed state: those of the window. Half-open state: the probes that have reported.
  tally counted(time_point now) const noexcept;
  /// The last change of the state; the number of the change is 0 if the state has never changed.
  const circuit_change& last_change() const noexcept { return last_; }

 private:
  static constexpr std::size_t buckets = 10;

  void advance(time_point now) noexcept;
  void count(bool failed, bool slow) noexcept;
  bool is_bad(const tally& t, std::uint64_t of) const noexcept;
  void decide(time_point now) noexcept;
  void open(time_point now) noexcept;
  void change_to(circuit_state next, time_point now) noexcept;

  std::uint64_t failures_, slow_percent_, least_calls_, probes_;
  duration bucket_length_, first_open_for_, most_open_for_;

  circuit_state state_ = circuit_state::closed;
  circuit_change last_{};
  epoch epoch_ = 1;
  duration open_for_;                          // how long the circuit stays open the next time
  time_point open_until_ = time_point::max();  // when the open state ends
  std::uint64_t probing_ = 0;                  // in the half-open state: probes that have not reported
  tally all_{};  // the sum of all buckets of the window; in the half-open state, the tally of the probes
  std::array<tally, buckets> window_{};
  std::size_t current_ = 0;  // the index of the current bucket
  time_point bucket_end_;
};

}  // namespace canigo
