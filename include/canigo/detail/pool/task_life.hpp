#pragma once

#include "canigo/pool.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace canigo::detail {

/// Makes the decisions of a pool about one task. It has no lock and no executor, and takes the time as an argument. The
/// table shows the action for each event (row) and each state of the task (column). "Runs, long" is a task that runs a
/// coroutine, and "runs, short" a task that runs a plain function. See `action` for the actions.
///
/// | event                      | waits | runs, long | runs, short | has ended |
/// |----------------------------|-------|------------|-------------|-----------|
/// | cancel: by the owner       | end   | ask        | note        | nothing   |
/// | stop: of the pool          | end   | ask        | note        | nothing   |
/// | time: more may follow      | queue | ask        | note        | nothing   |
/// | last_time: nothing follows | end   | ask        | tell        | nothing   |
///
/// `time` and `last_time` are the ends of time limits. For a waiting task, `time` is the end of its delay, and
/// `last_time` its deadline. For a running task, `time` ends an attempt after which another one may follow. `last_time`
/// ends the last attempt.
struct task_life {
  enum class event : std::uint8_t { cancel, stop, time, last_time };
  enum class phase : std::uint8_t { waits, runs_long, runs_short, ended };
  enum class action : std::uint8_t {
    nothing,
    end,    // end the task immediately
    queue,  // queue the task
    note,   // record the cause, which a short operation can check
    ask,    // cancel the operation, and record the cause
    tell,   // tell the owner that the task has ended, although its operation continues
  };
  /// Why a running operation was asked to end. Only the first cause counts.
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

  /// The final state of a task whose operation threw. `c`: why the operation was asked to end; none: it was not asked.
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

  /// Call it when an attempt of the task begins.
  void begin_attempt(time_point now) noexcept {
    started_at = now;
    attempts.store(attempts.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    due_at = std::min(saturating_add(now, timeout), deadline);
  }
  /// Whether the running attempt is the last one that retry.attempts allows.
  bool is_last_attempt() const noexcept { return attempts.load(std::memory_order_relaxed) >= retry.attempts; }
  /// Whether the running attempt is the task's last: retry.attempts are used up, or the deadline has passed.
  bool is_last_time(time_point now) const noexcept { return is_last_attempt() || now >= deadline; }
  /// The action when a time limit of the task is over.
  action on_time(phase p, time_point now) const noexcept {
    const bool is_last = p == phase::waits ? now >= deadline : is_last_time(now);
    return on(is_last ? event::last_time : event::time, p);
  }
  /// Whether the task's last attempt has exceeded its time limit. If its operation then does not end, the owner is told
  /// about the timeout.
  bool is_overdue(time_point now) const noexcept { return is_late && is_last_time(now); }
  /// Returns the time of the next attempt after a failed attempt, and takes the next attempt from the retry budget. The
  /// time is at least `least` after `now`. Returns time_point::max() if the deadline or the retry budget allows no
  /// further attempt.
  time_point next_attempt_at(time_point now, std::uint64_t random, duration least = {}) noexcept {
    const duration by_backoff = retry.backoff.delay(attempts.load(std::memory_order_relaxed), random);
    const time_point at = saturating_add(now, std::max(by_backoff, least));
    if (at >= deadline || (retry.budget != nullptr && !retry.budget->try_take())) return time_point::max();
    is_late = false;
    return at;
  }
  /// The end of the delay of a new task, but at most its deadline.
  time_point delayed_until(time_point now) const noexcept { return std::min(saturating_add(now, delay), deadline); }

  time_point deadline = time_point::max();
  time_point due_at = time_point::max();  // when the time limit of the running attempt is over
  time_point started_at{};                // when the latest attempt started
  duration timeout = duration::max();
  duration delay{};
  retry_policy retry;
  std::atomic<std::uint32_t> attempts{0};  // number of attempts that have begun; written under the lock of the pool
  bool is_late = false;                    // whether the running attempt has exceeded its time limit
};

}  // namespace canigo::detail
