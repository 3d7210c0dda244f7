#pragma once

#include "canigo/detail/base/int128.hpp"
#include "canigo/time.hpp"

#include <fmt/core.h>

#include <concepts>
#include <cstdint>
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

  /// A rate_limit of which nothing else is said: `.rates = {rate::per_second(10)}` has a burst of 1.
  template <std::same_as<rate_limit> Limit>
  operator Limit() const {  // NOLINT: the conversion is the point
    return {.rate = *this};
  }

  /// As it was written.
  constexpr std::int64_t tokens() const noexcept { return tokens_; }
  constexpr duration period() const noexcept { return period_; }

  /// The same rate in lowest terms: 10/3s is 1/300ms.
  constexpr rate reduced() const noexcept {
    const std::int64_t divisor = std::gcd(tokens_, period_.count());
    return {tokens_ / divisor, period_ / divisor};
  }

  /// How long `tokens` take, rounded up to the nanosecond; duration::max() if they take longer.
  duration time_for(std::uint64_t tokens) const noexcept;

  /// By value: 10/2s equals 5/s.
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

}  // namespace canigo

/// "{}" prints as `to_string` does; width, fill and alignment as for text.
template <>
struct fmt::formatter<canigo::rate> : fmt::formatter<fmt::string_view> {
  fmt::format_context::iterator format(const canigo::rate& value, fmt::format_context& context) const;
};
