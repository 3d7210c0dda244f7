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

/// An exact number of tokens per period: a ratio of two integers, without floating point.
///
/// The range is from one token per nanosecond to one token per 292 years. A rate remembers how it was written:
/// `rate{10, 3s}` prints "10/3s", although it equals `rate{20, 6s}`.
class rate {
 public:
  /// Makes a rate of `tokens` per `period`.
  ///
  /// Errors: errc::invalid_argument if `tokens` < 1, `period` < 1ns or `tokens` > `period` in nanoseconds.
  constexpr rate(std::integral auto tokens, duration period)
      : tokens_(static_cast<std::int64_t>(tokens)), period_(period) {
    if (tokens_ < 1 || period_.count() < tokens_) reject(tokens_, period_);
  }

  /// A rate without arguments does not compile. The compiler's message shows how to write a rate.
  template <class Never = void>
  constexpr rate() noexcept : tokens_{1}, period_{1} {
    static_assert(!std::is_void_v<Never>, "rate: it is missing: .rate = rate::per_second(5), or .rate = {10, 3s}");
  }
  /// A rate without a period does not compile. The compiler's message shows how to write a rate.
  template <class Tokens>
    requires std::is_arithmetic_v<Tokens>
  constexpr rate(Tokens) noexcept : tokens_{1}, period_{1} {
    static_assert(std::is_void_v<Tokens>, "rate: tokens in what time? rate::per_second(5), or rate{10, 3s}");
  }
  /// A period that is a plain number does not compile. The compiler's message shows how to write a period with its
  /// unit.
  template <class Tokens, class Period>
    requires std::is_arithmetic_v<Tokens> && std::is_arithmetic_v<Period>
  constexpr rate(Tokens, Period) noexcept : tokens_{1}, period_{1} {
    static_assert(std::is_void_v<Period>, "rate: a period of what unit? rate{10, 3s}, with std::chrono_literals");
  }

  static constexpr rate per_second(std::integral auto tokens) { return {tokens, std::chrono::seconds{1}}; }
  static constexpr rate per_minute(std::integral auto tokens) { return {tokens, std::chrono::minutes{1}}; }
  static constexpr rate per_hour(std::integral auto tokens) { return {tokens, std::chrono::hours{1}}; }
  static constexpr rate per_day(std::integral auto tokens) { return {tokens, std::chrono::hours{24}}; }

  /// Parses "tokens/period", such as "5/s", "10/3s" or "1000/1h". The units are ns, us, ms, s, m, h and d.
  ///
  /// Only whole numbers are allowed. Spaces and tabs are allowed before and after the text, but not inside it.
  ///
  /// Errors: errc::invalid_argument. The message quotes the input, and says what was expected at which position.
  static rate parse(std::string_view text);

  /// Converts to a rate_limit with default fields, so `.rates = {rate::per_second(10)}` has a burst of 1.
  template <std::same_as<rate_limit> Limit>
  operator Limit() const {  // NOLINT: an implicit conversion is intended
    return {.rate = *this};
  }

  /// The number of tokens and the period as they were written, not reduced.
  constexpr std::int64_t tokens() const noexcept { return tokens_; }
  constexpr duration period() const noexcept { return period_; }

  /// The same rate in lowest terms: 10/3s is 1/300ms.
  constexpr rate reduced() const noexcept {
    const std::int64_t divisor = std::gcd(tokens_, period_.count());
    return {tokens_ / divisor, period_ / divisor};
  }

  /// The time in which `tokens` are released, rounded up to the nanosecond. At most duration::max().
  duration time_for(std::uint64_t tokens) const noexcept;

  /// Compares the values of two rates: 10/2s equals 5/s.
  friend constexpr bool operator==(const rate& a, const rate& b) noexcept {
    return detail::int128{a.tokens_} * b.period_.count() == detail::int128{b.tokens_} * a.period_.count();
  }

 private:
  [[noreturn]] static void reject(std::int64_t tokens, duration period);

  std::int64_t tokens_;
  duration period_;
};

/// Formats a rate as "10/3s", or "5/s" if the period is one unit. rate::parse() reads this text.
std::string to_string(const rate& value);

/// How strictly a rate of N tokens per period P bounds the tokens in a window of time.
///
/// A token bucket makes N tokens in each P, and also stores a burst. So the first window may have N + burst tokens:
/// 72,000 tokens for a quota of 60,000 per minute with a burst of 12,000. A provider that counts per minute would
/// refuse some of them.
///
/// A strict rate keeps a log of its grants during the last P, in addition to the bucket. It grants nothing that would
/// bring any window of length P, both ends included, to more than N tokens. P is the period as written: `rate{10, 3s}`
/// differs from `rate{20, 6s}`. The bucket still spaces the grants, and discards tokens that the window does not allow.
/// So after a burst, once the window allows grants again, the queue moves at the rate. Under constant demand at least
/// 64 of 65 tokens are used. The details:
/// - A grant counts from the instant at which it was made, and a charge from the instant at which it was reported.
/// - If settle() returns unused tokens to a limiter that has a strict rate of its own, or several units, the window
///   frees these tokens immediately. In other limits they stay in the window. Tokens that scheduler::refund() returns
///   also stay, because their grant is unknown. A grant that has left the window frees nothing.
/// - A charge that exceeds the window is a debt: nothing is granted until enough grants have left the window.
/// - limiter::lower_tokens() lowers the bucket, not what the window allows.
/// - After a change to a longer period, the log lacks grants that were older than the shorter period.
/// - A strict rate costs 1 KiB, and no allocation later.
///
/// Keyed limits, with 16 bytes per key, and limits in Redis have no strict windows. In these limits, use a rate of
/// N - b tokens per period with a burst of b. As long as no tokens are returned, it also grants at most N tokens in
/// each window, but under constant demand it uses only N - b of them.
enum class rate_window {
  average,  ///< a window of one period may hold the burst in addition to the tokens of the rate
  strict,   ///< a window of one period, both ends included, never holds more than the rate's tokens
};

/// One of the rates of a limiter, or of a flow.
struct rate_limit {
  canigo::rate rate;                 ///< tokens released per period
  std::uint64_t burst = 1;           ///< max number of stored tokens, and of tokens for one request; 1 to 2^62
  std::uint64_t initial_tokens = 0;  ///< tokens at the start; 0 to burst
  /// The unit of the tokens, such as "bytes". Empty: the limiter's first unit. A limiter can have up to 5 units.
  std::string unit = {};
  rate_window window = rate_window::average;  ///< see rate_window; `strict` requires burst <= tokens of the rate
};

/// The value of limiter_options::concurrency and flow_options::concurrency that means "no cap".
inline constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

}  // namespace canigo

/// Formats a rate with "{}" like to_string(); width, fill and alignment work as for strings.
template <>
struct fmt::formatter<canigo::rate> : fmt::formatter<fmt::string_view> {
  fmt::format_context::iterator format(const canigo::rate& value, fmt::format_context& context) const;
};
