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

/// The states of a circuit breaker, by its treatment of calls.
enum class circuit_state : std::uint8_t {
  closed,         ///< calls go, and are counted
  open,           ///< calls are refused
  half_open,      ///< a few calls go as probes; the others are refused
  forced_open,    ///< calls are refused, by force_open()
  forced_closed,  ///< calls go, by force_closed()
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
  int failures = 50;                                  ///< percent of failed calls in the window that opens it; 1 to 100
  std::uint64_t least_calls = 20;                     ///< with fewer calls in the window it stays closed; 1 or more
  duration window = std::chrono::seconds{30};         ///< how long a call counts, exact to a tenth of it; 1 ms or more
  duration slow = duration::max();                    ///< a call that takes longer is slow; more than 0
  int slow_percent = 80;                              ///< percent of slow calls in the window that opens it; 1 to 100
  duration open_for = std::chrono::seconds{5};        ///< how long it is open the first time; more than 0
  duration most_open_for = std::chrono::seconds{60};  ///< open_for doubles with each failed trial, up to this
  int probes = 3;                                     ///< calls that decide while it is half-open; 1 to 1000
  /// Which errors of a call are failures. Null: is_failure_of_callee(). No lock is held.
  bool (*failed_if)(const std::exception_ptr& error) = nullptr;
  circuit_observer* observer = nullptr;     ///< must outlive the breaker and its calls
  enforcement mode = enforcement::enforce;  ///< shadow: it refuses no call, and counts what it would have refused
  std::string name = {};                    ///< for the texts of errors
};

/// A change of a breaker's state.
struct circuit_change {
  circuit_state from = circuit_state::closed;
  circuit_state to = circuit_state::closed;
  time_point at{};
  duration open_for{};       ///< how long an open circuit stays open; max() if it was forced open
  std::uint64_t number = 0;  ///< 1 is the first; two threads may report two changes in either order
};

/// Learns of the state changes of a circuit breaker, for logs and alarms.
///
/// Threads: any, several at once; no lock is held. Must not throw, and should return soon: a call waits for it.
class circuit_observer {
 public:
  virtual void state_changed(const circuit_change& change) noexcept = 0;

 protected:
  ~circuit_observer() = default;
};

/// The decisions of a circuit breaker: its window, its states and how long it is open. A value without a clock and
/// without a lock.
///
/// Closed, it counts calls in a window of ten buckets. A call counts for nine to ten tenths of `window`. If there are
/// `least_calls` and too many of them failed, or were slow, it opens. After `open_for` it is half-open, and lets
/// `probes` calls go. As soon as their results decide, it closes or opens again. The limits in percent are those for
/// the window, applied to all probes. Each failed trial doubles the time for which it is open, up to `most_open_for`;
/// closing resets that time.
///
/// A call belongs to the state in which it began. Its report is ignored once the state has changed, so a
/// call that began before the circuit opened is no probe.
///
/// Sources: M. Nygard, "Release It!", 2007; the time-based window of resilience4j; the generations of gobreaker.
/// Threads: not safe by itself; its owner holds a lock. Takes constant time. Allocates: never.
class circuit {
 public:
  struct tally {
    std::uint64_t calls = 0;
    std::uint64_t failed = 0;
    std::uint64_t slow = 0;
  };
  /// The state in which a call began; 0 if the call is not counted.
  using epoch = std::uint64_t;

  /// Errors: errc::invalid_argument, naming the field, the value and the range.
  circuit(const circuit_breaker_options& options, time_point now);

  /// Lets a call begin, or refuses it.
  [[nodiscard]] std::optional<epoch> try_enter(time_point now) noexcept;
  /// Call it when a call has ended. `e` is what try_enter() returned for it.
  void report(epoch e, bool failed, bool slow, time_point now) noexcept;
  /// Call it when a call has ended without a report; the call is no sample. If it was a probe, another call may be one.
  void leave(epoch e) noexcept;

  void force_open(time_point now) noexcept { change_to(circuit_state::forced_open, now); }
  void force_closed(time_point now) noexcept { change_to(circuit_state::forced_closed, now); }
  /// Begins again: closed, with an empty window and the first `open_for`.
  void reset(time_point now) noexcept;

  /// Half-open as soon as `open_for` has passed.
  circuit_state state(time_point now) const noexcept;
  /// How long calls are refused at least: 0 unless it is open, max() if that was forced.
  duration open_for(time_point now) const noexcept;
  /// The calls that count now: those of the window, or the probes that have reported.
  tally counted(time_point now) const noexcept;
  /// The last change; its number is 0 if there was none.
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
  duration open_for_;                          // how long it is open the next time
  time_point open_until_ = time_point::max();  // in the state open
  std::uint64_t probing_ = 0;                  // half-open: probes that have not reported
  tally all_{};                                // of the window, or of the probes
  std::array<tally, buckets> window_{};
  std::size_t current_ = 0;  // bucket
  time_point bucket_end_;
};

}  // namespace canigo
