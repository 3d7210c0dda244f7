#pragma once

#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include <algorithm>
#include <cstdint>

namespace canigo {

/// A token bucket in integers, exact to the nanosecond for centuries: the decision without the waiting.
///
/// The bucket holds at most `burst` tokens and gains N per P nanoseconds until it is full. Any window [s, t) gives out
/// at most burst + floor((t − s) · N/P) tokens. It gives out at least floor((t − s) · N/P) if every token is taken at
/// the instant that ready_at names.
///
/// If P/N is a whole number of nanoseconds, the upper bound holds for closed windows too. If not, tokens fall due
/// between two nanoseconds; they are given at the later one, and keep their place in the schedule.
///
/// It remembers one instant at which it was full, and the number of tokens that were taken since. Tokens in between are
/// computed, so nothing is rounded and nothing drifts. This is the generic cell rate algorithm (ITU-T I.371). Its
/// theoretical arrival time is kept as a ratio: origin + taken · P/N.
///
/// `now` is always an argument. A `now` before the origin counts as the origin, so a clock that steps back adds no
/// credit. Counts and instants saturate at the ends of their range.
///
/// Threads: not safe by itself; its owner holds a lock. Allocates: never, except for the text of an error.
class token_bucket {
  using uint128 = detail::uint128;

 public:
  /// The largest `burst`.
  static constexpr std::uint64_t max_burst = std::uint64_t{1} << 62;

  /// Errors: errc::invalid_argument if `burst` is 0 or above max_burst, or `initial_tokens` above `burst`.
  token_bucket(const canigo::rate& supply, std::uint64_t burst, std::uint64_t initial_tokens, time_point now);

  /// Whether try_take would succeed. For an owner that must ask several buckets before it takes from any.
  bool can_take(time_point now, std::uint64_t tokens) const noexcept {
    return tokens <= burst_ && allows(gained(now), taken_ + tokens);
  }

  /// Takes `tokens` and returns true if all of them are there at `now`. Otherwise takes none.
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

  /// The first instant from `now` on at which try_take(tokens) succeeds if nothing else is taken or given back.
  ///
  /// For more than `burst` tokens: the instant at which the last of them is there if each is taken as it comes.
  /// time_point::max() if it lies beyond that.
  time_point ready_at(time_point now, std::uint64_t tokens) const noexcept;

  /// The whole tokens that could be taken at `now`; negative while the bucket is in debt.
  std::int64_t available(time_point now) const noexcept;

  /// Gives tokens back. Tokens beyond `burst` are lost.
  void refund(time_point now, std::uint64_t tokens) noexcept;

  /// Takes tokens, even if they are not there. A debt delays later grants by exactly its time. It saturates beyond
  /// 2^63 tokens.
  void charge(time_point now, std::uint64_t tokens) noexcept;

  /// Changes the rate from `now` on. The tokens that are there stay, less 1 ns worth at most.
  void set_rate(time_point now, const canigo::rate& supply) noexcept;

  /// Changes the depth. The tokens that are there stay, as far as they fit; none appear.
  ///
  /// Errors: errc::invalid_argument if `burst` is 0 or above max_burst. Nothing changes then.
  void set_burst(time_point now, std::uint64_t burst);

  /// The state of a bucket without its rate and burst. For an owner of many buckets that have those in common.
  struct level {
    std::int64_t origin = 0;
    std::uint64_t taken = 0;
  };
  level save() const noexcept { return {origin_, taken_}; }
  /// Takes over a level of a bucket of the same rate and burst.
  void restore(const level& l) noexcept {
    origin_ = l.origin;
    taken_ = l.taken;
  }
  /// Whether it can't be told from a new bucket that is full. A bucket that became full between two nanoseconds can be
  /// told apart: its next token comes earlier by a fraction.
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
  // tokens_ per period_ nanoseconds are below 2^63 and burst_ is at most 2^62. So taken_ after a granted take and
  // a re-anchoring is at most burst_ + tokens_ <= most_taken, and no sum or product below can wrap.
  static constexpr std::uint64_t most_taken = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62) - 1;
  static constexpr std::uint64_t reanchor_above = std::uint64_t{1} << 62;

  // Credit is counted in units of 1/period_ of a token: `elapsed` nanoseconds bring elapsed · tokens_.
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

  // Whether the bucket has been full for a nanosecond or longer. The credit of the last nanosecond beyond the brim is
  // kept: a token that fell due between two nanoseconds was taken as early as possible. Its successor must not slip.
  bool overflows(uint128 credit) const noexcept { return spent(taken_) + tokens_ <= credit; }

  void fill(time_point now) noexcept;
  void reanchor(time_point now) noexcept;

  std::int64_t origin_;   // the bucket was full then, in the clock's nanoseconds
  std::uint64_t taken_;   // tokens that were taken since then
  std::uint64_t tokens_;  // per period_
  std::uint64_t period_;  // in nanoseconds; the rate is in lowest terms
  std::uint64_t burst_;
};

}  // namespace canigo
