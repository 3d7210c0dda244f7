#include "gateway/policy/quota_fields.hpp"

#include "canigo/detail/time/decimal_seconds.hpp"

#include "gateway/policy/fields.hpp"
#include "gateway/policy/http_date.hpp"
#include "gateway/wire/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace canigo::gateway {
namespace {

std::optional<std::uint64_t> parse_count(std::string_view text) noexcept {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return count;
}

void keep_least(std::optional<std::uint64_t>& kept, std::optional<std::uint64_t> count) noexcept {
  if (count) kept = std::min(kept.value_or(*count), *count);
}

/// "10", or a list of such, of which some have parameters: "10;w=1, 500;w=60".
void read_counts(std::string_view value, std::optional<std::uint64_t>& kept) noexcept {
  for_each_element(value, [&](std::string_view element) {
    keep_least(kept, parse_count(trim(element.substr(0, element.find(';')))));
  });
}

/// `"default";r=50;t=30, "day";r=100` of the later versions, `limit=100, remaining=50, reset=30` of the earlier.
void read_ratelimit(std::string_view value, std::optional<std::uint64_t>& kept) noexcept {
  for_each_element(value, [&](std::string_view element) {
    for (;;) {
      const auto semicolon = element.find(';');
      const std::string_view part = trim(element.substr(0, semicolon));
      const auto equals = part.find('=');
      const std::string_view name = part.substr(0, equals);
      if (equals != part.npos && (name == "r" || name == "remaining"))
        keep_least(kept, parse_count(part.substr(equals + 1)));
      if (semicolon == element.npos) return;
      element.remove_prefix(semicolon + 1);
    }
  });
}

/// Seconds, or a date.
std::optional<duration> read_wait(std::string_view text, std::chrono::sys_seconds since, duration most) noexcept {
  if (const auto seconds = canigo::detail::parse_decimal_seconds(text, most)) return seconds;
  const auto until = parse_http_date(text);
  if (!until) return std::nullopt;
  // In whole seconds: the clock's nanoseconds end in 2262, and a date does not.
  const auto wait = *until - since;
  if (wait <= wait.zero()) return duration::zero();
  return wait >= std::chrono::ceil<std::chrono::seconds>(most) ? most : duration{wait};
}

}  // namespace

std::optional<std::uint64_t> quota_left::of(std::string_view unit) const noexcept {
  if (unit == "requests") return requests;
  if (unit == "tokens") return tokens;
  if (unit == "input_tokens") return input_tokens;
  return unit == "output_tokens" ? output_tokens : std::nullopt;
}

quota_left read_quota(const message_head& response) noexcept {
  quota_left left;
  for (const field& f : response.fields) {
    const auto is = [&](std::string_view name) { return same_text(f.name, name); };
    if (is("RateLimit")) {
      read_ratelimit(f.value, left.requests);
    } else if (is("RateLimit-Remaining") || is("X-RateLimit-Remaining") || is("X-RateLimit-Remaining-Requests") ||
               is("anthropic-ratelimit-requests-remaining")) {
      read_counts(f.value, left.requests);
    } else if (is("X-RateLimit-Remaining-Tokens") || is("anthropic-ratelimit-tokens-remaining")) {
      read_counts(f.value, left.tokens);
    } else if (is("anthropic-ratelimit-input-tokens-remaining")) {
      read_counts(f.value, left.input_tokens);
    } else if (is("anthropic-ratelimit-output-tokens-remaining")) {
      read_counts(f.value, left.output_tokens);
    }
  }
  return left;
}

std::uint64_t tokens_to_keep(const rate_limit& r, std::uint64_t left) noexcept {
  constexpr double hour = std::chrono::nanoseconds{std::chrono::hours{1}}.count();
  const double made = static_cast<double>(r.rate.tokens()) * hour / static_cast<double>(r.rate.period().count());
  const auto burst = static_cast<double>(r.burst);
  const double least = made < burst ? std::ceil(burst - made) : 0;
  return std::max(left, static_cast<std::uint64_t>(least));
}

std::optional<duration> read_retry_after(const message_head& response, std::chrono::system_clock::time_point now,
                                         duration most) noexcept {
  if (count_of(response, "Retry-After") == 0) return std::nullopt;
  const auto date = value_of(response, "Date");
  const auto told = date ? parse_http_date(trim(*date)) : std::nullopt;
  const auto since = told.value_or(std::chrono::floor<std::chrono::seconds>(now));
  std::optional<duration> longest;
  for (const field& f : response.fields) {
    // Nothing is less than any time.
    if (same_text(f.name, "Retry-After")) longest = std::max(longest, read_wait(trim(f.value), since, most));
  }
  return longest;
}

}  // namespace canigo::gateway
