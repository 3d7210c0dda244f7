#pragma once

#include "canigo/pool.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace canigo::detail {

/// The decisions of a pool about one task. It has no lock and no executor, and takes the time as an argument.
///
/// | event                      | waits | runs, long | runs, short | has ended |
/// |----------------------------|-------|------------|-------------|-----------|
/// | cancel: by the owner       | end   | ask        | note        | nothing   |
/// | stop: of the pool          | end   | ask        | note        | nothing   |
/// | time: more may follow      | queue | ask        | note        | nothing   |
/// | last_time: nothing follows | end   | ask        | tell        | nothing   |
///
/// While a task waits, `time` is the end of its delay and `last_time` its deadline. While it runs, `time` is the end of
/// an attempt that another one may follow.
struct task_life {
  enum class event : std::uint8_t { cancel, stop, time, last_time };
  enum class phase : std::uint8_t { waits, runs_long, runs_short, ended };
  enum class action : std::uint8_t {
    nothing,
    end,    // the task, at once
    queue,  // the task
    note,   // the cause; a short operation can ask for it
    ask,    // the operation to end, by a cancellation, and note the cause
    tell,   // the owner that the task has ended, although its operation goes on
  };
  /// The reason why a running operation was asked to end. The first cause counts.
  enum class cause : std::uint8_t { none, owner, time, stop };

  static constexpr action on(event e, phase p) noexcept {
    using enum action;
    constexpr action table[4][4] = {
        {end, ask, note, nothing},
        {end, ask, note, nothing},
        {queue, ask, note, nothing},
        {end, ask, tell, nothing},
    };
    return table[static_cast<int>(e)][static_cast<int>(p)];
  }

  /// How a task ends if `c` asked its operation to end, and the operation threw after that.
  static constexpr task_state state_after_throw(cause c) noexcept {
    switch (c) {
      case cause::none:
        return task_state::failed;
      case cause::time:
        return task_state::timed_out;
      default:
        return task_state::cancelled;
    }
  }

  /// Begins an attempt.
  void begin_attempt(time_point now) noexcept {
    started_at = now;
    attempts.store(attempts.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    due_at = std::min(saturating_add(now, timeout), deadline);
  }
  /// Whether the attempt that runs is the last one.
  bool is_last_attempt() const noexcept { return attempts.load(std::memory_order_relaxed) >= retry.attempts; }
  /// Whether nothing follows the attempt that runs.
  bool is_last_time(time_point now) const noexcept { return is_last_attempt() || now >= deadline; }
  /// The action when the time of the task is up.
  action on_time(phase p, time_point now) const noexcept {
    const bool is_last = p == phase::waits ? now >= deadline : is_last_time(now);
    return on(is_last ? event::last_time : event::time, p);
  }
  /// Whether the owner is to be told that the time is up, if the operation does not end.
  bool is_overdue(time_point now) const noexcept { return is_late && is_last_time(now); }
  /// When the next attempt begins after one that failed; time_point::max() if none does, because that would be too late
  /// or the budget allows none. The delay is `least` or more.
  time_point next_attempt_at(time_point now, std::uint64_t random, duration least = {}) noexcept {
    const duration by_backoff = retry.backoff.delay(attempts.load(std::memory_order_relaxed), random);
    const time_point at = saturating_add(now, std::max(by_backoff, least));
    if (at >= deadline || (retry.budget != nullptr && !retry.budget->try_take())) return time_point::max();
    is_late = false;
    return at;
  }
  /// The end of the delay of a task that is new.
  time_point delayed_until(time_point now) const noexcept { return std::min(saturating_add(now, delay), deadline); }

  time_point deadline = time_point::max();
  time_point due_at = time_point::max();  // when the time of the attempt that runs is over
  time_point started_at{};                // when the last attempt started
  duration timeout = duration::max();
  duration delay{};
  retry_policy retry;
  std::atomic<std::uint32_t> attempts{0};  // written under the lock of the pool
  bool is_late = false;                    // the attempt that runs is over its time
};

}  // namespace canigo::detail
