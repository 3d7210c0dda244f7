#pragma once

#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include <algorithm>
#include <cstdint>

namespace canigo {

/// A token bucket with integer arithmetic, exact to the nanosecond for centuries. It decides, but never waits.
///
/// The bucket holds at most `burst` tokens and gains N tokens per P nanoseconds until it is full. In any window [s, t)
/// at most burst + floor((t − s) · N/P) tokens are taken. If every token is taken at the instant that ready_at()
/// returns, at least floor((t − s) · N/P) tokens are taken in the window.
///
/// If P/N is a whole number of nanoseconds, the upper bound also holds for windows that include both ends. If not, some
/// tokens are due between two nanoseconds; such a token is available at the later nanosecond, and the schedule of later
/// tokens does not shift.
///
/// The state is one instant at which the bucket was full, and the number of tokens taken since. All other values are
/// computed from this instant and this number, so nothing is rounded and nothing drifts. This is the generic cell rate
/// algorithm (ITU-T I.371). Its theoretical arrival time is stored as a ratio: origin + taken · P/N.
///
/// `now` is always an argument. A `now` before the origin counts as the origin, so a clock that steps back adds no
/// tokens. Counts and instants saturate at the ends of their range.
///
/// Threads: not thread-safe; its owner must hold a lock. Allocates: never, except for the text of an error.
class token_bucket {
  using uint128 = detail::uint128;

 public:
  /// The largest allowed `burst`.
  static constexpr std::uint64_t max_burst = std::uint64_t{1} << 62;

  /// Errors: errc::invalid_argument if `burst` is 0 or above max_burst, or `initial_tokens` above `burst`.
  token_bucket(const canigo::rate& supply, std::uint64_t burst, std::uint64_t initial_tokens, time_point now);

  /// Whether try_take() would succeed. An owner of several buckets uses this to check all of them before it takes from
  /// any.
  bool can_take(time_point now, std::uint64_t tokens) const noexcept {
    return tokens <= burst_ && allows(gained(now), taken_ + tokens);
  }

  /// Takes `tokens` and returns true if all of them are available at `now`. Otherwise takes none and returns false.
  [[nodiscard]] bool try_take(time_point now, std::uint64_t tokens) noexcept {
    if (tokens > burst_) return false;
    const uint128 credit = gained(now);
    std::uint64_t taken = taken_ + tokens;
    if (!allows(credit, taken)) return false;
    if (overflows(credit)) {
      origin_ = now.time_since_epoch().count();
      taken = tokens;
    }
    taken_ = taken;
    if (taken > reanchor_above) [[unlikely]]
      reanchor(now);
    return true;
  }

  /// The earliest instant, not before `now`, at which try_take(tokens) succeeds if nothing else is taken or given back.
  ///
  /// For more than `burst` tokens: the instant at which the last token is released, if each token is taken as soon as
  /// it is released. time_point::max() if that instant is out of range.
  time_point ready_at(time_point now, std::uint64_t tokens) const noexcept;

  /// The number of whole tokens that are available at `now`; negative while the bucket is in debt.
  std::int64_t available(time_point now) const noexcept;

  /// Gives tokens back. Tokens beyond `burst` are lost.
  void refund(time_point now, std::uint64_t tokens) noexcept;

  /// Takes tokens even if they are not available. A debt delays later grants until it is paid. The debt saturates
  /// beyond 2^63 tokens.
  void charge(time_point now, std::uint64_t tokens) noexcept;

  /// Changes the rate from `now` on. Available tokens are kept, except for a fraction worth 1 ns at most.
  void set_rate(time_point now, const canigo::rate& supply) noexcept;

  /// Changes the burst. Available tokens are kept, up to the new burst; no tokens are added.
  ///
  /// Errors: errc::invalid_argument if `burst` is 0 or above max_burst. Then nothing changes.
  void set_burst(time_point now, std::uint64_t burst);

  /// The state of a bucket without its rate and burst, for an owner of many buckets with the same rate and burst.
  struct level {
    std::int64_t origin = 0;
    std::uint64_t taken = 0;
  };
  level save() const noexcept { return {origin_, taken_}; }
  /// Restores the state of a bucket with the same rate and burst.
  void restore(const level& l) noexcept {
    origin_ = l.origin;
    taken_ = l.taken;
  }
  /// Whether the bucket behaves like a new bucket that is full. A bucket that became full between two nanoseconds
  /// differs from a new one: its next token comes earlier by a fraction of a nanosecond.
  bool is_as_new(time_point now) const noexcept {
    const uint128 credit = gained(now);
    return spent(taken_) == credit || overflows(credit);
  }

  /// The rate in lowest terms.
  canigo::rate rate() const noexcept {
    return {static_cast<std::int64_t>(tokens_), duration{static_cast<std::int64_t>(period_)}};
  }
  std::uint64_t burst() const noexcept { return burst_; }

 private:
  // tokens_ and period_ are below 2^63, and burst_ is at most 2^62. So after a take and reanchor(), taken_ is at most
  // burst_ + tokens_ <= most_taken, and no sum or product below overflows.
  static constexpr std::uint64_t most_taken = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62) - 1;
  static constexpr std::uint64_t reanchor_above = std::uint64_t{1} << 62;

  // Credit is counted in units of 1/period_ of a token: `elapsed` nanoseconds add elapsed · tokens_ units.
  std::uint64_t elapsed(time_point now) const noexcept {
    const std::int64_t at = now.time_since_epoch().count();
    return at > origin_ ? static_cast<std::uint64_t>(at) - static_cast<std::uint64_t>(origin_) : 0;
  }
  uint128 gained(time_point now) const noexcept { return uint128{elapsed(now)} * tokens_; }
  uint128 spent(std::uint64_t tokens) const noexcept { return uint128{tokens} * period_; }

  bool allows(uint128 credit, std::uint64_t taken) const noexcept {
    return taken <= burst_ || spent(taken - burst_) <= credit;
  }
  bool full(uint128 credit) const noexcept { return spent(taken_) <= credit; }

  // Whether the bucket has been full for a nanosecond or longer. If it has been full for less than a nanosecond, it
  // keeps the credit beyond `burst` tokens. Without this credit, the schedule of later tokens would shift if a token
  // was due between two nanoseconds.
  bool overflows(uint128 credit) const noexcept { return spent(taken_) + tokens_ <= credit; }

  void fill(time_point now) noexcept;
  void reanchor(time_point now) noexcept;

  std::int64_t origin_;   // an instant at which the bucket was full, in the clock's nanoseconds
  std::uint64_t taken_;   // number of tokens taken since origin_
  std::uint64_t tokens_;  // tokens of the rate, per period_
  std::uint64_t period_;  // the period in nanoseconds; tokens_/period_ is in lowest terms
  std::uint64_t burst_;
};

}  // namespace canigo
