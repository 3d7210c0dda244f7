#pragma once

#include "canigo/time.hpp"

#include <fmt/core.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <type_traits>

namespace canigo {

struct rate_limit;

/// A number of tokens per period, exactly: a ratio of two integers, never a floating-point number.
///
/// The range is from one token per nanosecond down to one per 292 years. A rate remembers how it was written:
/// `rate{10, 3s}` prints "10/3s", although it equals `rate{20, 6s}`.
class rate {
 public:
  /// `tokens` per `period`.
  ///
  /// Errors: errc::invalid_argument if `tokens` < 1, `period` < 1ns or `tokens` > `period` in nanoseconds.
  constexpr rate(std::integral auto tokens, duration period)
      : tokens_(static_cast<std::int64_t>(tokens)), period_(period) {
    if (tokens_ < 1 || period_.count() < tokens_) reject(tokens_, period_);
  }

  /// Does not compile: the compiler's message says what to write.
  template <class Never = void>
  constexpr rate() noexcept : tokens_{1}, period_{1} {
    static_assert(!std::is_void_v<Never>, "rate: it is missing: .rate = rate::per_second(5), or .rate = {10, 3s}");
  }
  /// Does not compile: the compiler's message says what to write.
  template <class Tokens>
    requires std::is_arithmetic_v<Tokens>
  constexpr rate(Tokens) noexcept : tokens_{1}, period_{1} {
    static_assert(std::is_void_v<Tokens>, "rate: tokens in what time? rate::per_second(5), or rate{10, 3s}");
  }
  /// Does not compile: the compiler's message says what to write.
  template <class Tokens, class Period>
    requires std::is_arithmetic_v<Tokens> && std::is_arithmetic_v<Period>
  constexpr rate(Tokens, Period) noexcept : tokens_{1}, period_{1} {
    static_assert(std::is_void_v<Period>, "rate: a period of what unit? rate{10, 3s}, with std::chrono_literals");
  }

  static constexpr rate per_second(std::integral auto tokens) { return {tokens, std::chrono::seconds{1}}; }
  static constexpr rate per_minute(std::integral auto tokens) { return {tokens, std::chrono::minutes{1}}; }
  static constexpr rate per_hour(std::integral auto tokens) { return {tokens, std::chrono::hours{1}}; }
  static constexpr rate per_day(std::integral auto tokens) { return {tokens, std::chrono::hours{24}}; }

  /// Reads "tokens/period": "5/s", "10/3s", "1000/1h", with ns, us, ms, s, m, h or d.
  ///
  /// Whole numbers only. Spaces and tabs are allowed around the text, not inside it.
  ///
  /// Errors: errc::invalid_argument. The text quotes the input, and says what was expected where.
  static rate parse(std::string_view text);

  /// Converts to a rate_limit with the defaults: `.rates = {rate::per_second(10)}` has a burst of 1.
  template <std::same_as<rate_limit> Limit>
  operator Limit() const {  // NOLINT: the conversion is the point
    return {.rate = *this};
  }

  /// The number of tokens and the period, as they were written.
  constexpr std::int64_t tokens() const noexcept { return tokens_; }
  constexpr duration period() const noexcept { return period_; }

  /// The same rate in lowest terms: 10/3s is 1/300ms.
  constexpr rate reduced() const noexcept {
    const std::int64_t divisor = std::gcd(tokens_, period_.count());
    return {tokens_ / divisor, period_ / divisor};
  }

  /// How long `tokens` take, rounded up to the nanosecond; duration::max() if they take longer.
  duration time_for(std::uint64_t tokens) const noexcept;

  /// Compares by value: 10/2s equals 5/s.
  friend constexpr bool operator==(const rate& a, const rate& b) noexcept {
    return detail::int128{a.tokens_} * b.period_.count() == detail::int128{b.tokens_} * a.period_.count();
  }

 private:
  [[noreturn]] static void reject(std::int64_t tokens, duration period);

  std::int64_t tokens_;
  duration period_;
};

/// "10/3s"; "5/s" for a period of one unit. `rate::parse` reads it back.
std::string to_string(const rate& value);

/// How a rate of N tokens per period P holds in a window of time.
///
/// A token bucket makes N tokens in each P, and also holds a burst. So the first window holds N + burst: 72,000 tokens
/// of a quota of 60,000 a minute with a burst of 12,000. For a provider that counts minutes, that is too many.
///
/// A strict rate keeps a log of its grants in the last P, besides the bucket. It grants nothing that would make more
/// than N in any closed window of length P. P is as the rate is written: `rate{10, 3s}` is not `rate{20, 6s}`. The
/// bucket paces the grants as usual, and keeps no token for which the window had no room. So after a burst the queue
/// moves at the rate again, once there is room. Under constant demand at least 64 of 65 tokens are used. The details:
/// - A grant counts as of the instant at which it was made, and a charge as of the instant at which it was told.
/// - Tokens that a permit gives back by settling for less leave the window at once. For that, a limiter must have a
///   strict rate of its own, or several units. Elsewhere the tokens stay in the window, as with scheduler::refund(),
///   which does not say when they were granted. Grants that have left the window give no room back.
/// - A charge beyond the room is a debt: then nothing is granted until enough has left the window.
/// - limiter::lower_tokens() lowers the bucket, not the room of the window.
/// - After a change to a longer period, the log lacks the grants that the shorter period no longer needed.
/// - It costs 1 KiB a rate, and no allocation later.
///
/// Keyed limits, whose keys have 16 bytes each, and limits in Redis have no strict windows. There a rate of N - b
/// tokens with a burst of b keeps the same promise, if nothing is given back, and uses N - b of N.
enum class rate_window {
  average,  ///< a closed window of the period may hold the burst beside the tokens of the rate
  strict,   ///< a closed window of the period never holds more than the tokens of the rate
};

/// One of the rates of a limiter, or of a flow.
struct rate_limit {
  canigo::rate rate;                 ///< tokens released per period
  std::uint64_t burst = 1;           ///< most tokens kept while no request comes, and most for one; 1 to 2^62
  std::uint64_t initial_tokens = 0;  ///< 0 to burst
  std::string unit = {};             ///< the unit that it counts, such as "bytes"; up to 5 units; empty: the first unit
  rate_window window = rate_window::average;  ///< strict: the burst is at most the tokens of the rate
};

/// For limiter_options::concurrency and flow_options::concurrency: no cap.
inline constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

}  // namespace canigo

/// "{}" prints as `to_string` does; width, fill and alignment as for text.
template <>
struct fmt::formatter<canigo::rate> : fmt::formatter<fmt::string_view> {
  fmt::format_context::iterator format(const canigo::rate& value, fmt::format_context& context) const;
};
