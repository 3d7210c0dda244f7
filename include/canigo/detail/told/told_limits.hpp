#pragma once

#include "canigo/detail/told/quota_name.hpp"
#include "canigo/time.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace canigo::detail {

/// A quota that a response reports. Its text lies in the response.
struct told_quota {
  told_unit unit = told_unit::requests;
  std::string_view resource;           ///< the part of the server that it is of; empty: the server names none
  std::optional<std::uint64_t> limit;  ///< as much as may be used in a window
  std::optional<std::uint64_t> left;
  std::optional<duration> window;
  std::optional<duration> reset;  ///< how long until all of it is back
  bool refills = false;           ///< parts of it come back before the reset

  bool is_used_up() const noexcept { return left == 0u; }
};

/// The limits that a response reports for its server. Their texts lie in the response.
struct told_limits {
  static constexpr std::size_t most_quotas = 16;

  std::optional<duration> retry_after;  ///< the wait that the response names
  bool forbids_retry = false;           ///< the same call would fail again
  std::array<told_quota, most_quotas> all{};
  std::size_t size = 0;

  std::span<const told_quota> quotas() const noexcept { return {all.data(), size}; }
  bool has_used_up() const noexcept;
  /// The longest reset of the quotas that are used up; nothing: none of them tells its reset. A quota that refills
  /// counts only after a refusal, as some of it is back long before its reset.
  std::optional<duration> reset_of_used_up(bool is_refused) const noexcept;
  /// How long a refused call is to wait: the wait that is named, else the reset of what is used up.
  std::optional<duration> wait_of_refusal() const noexcept;
};

/// Reads the fields of a response, one after the other, for the limits that they report. It keeps views of their
/// values.
///
/// A wait: Retry-After, in seconds or as a date; retry-after-ms of Azure and OpenAI, which counts alone if it is there;
/// x-amz-retry-after in milliseconds if there is neither. If a field is there twice, the longest time counts.
///
/// A quota, with its limit, rest and reset:
/// - RateLimit and RateLimit-Policy in the forms of each version of the draft, RateLimit-Remaining and its like;
/// - X-RateLimit-Remaining and its like (GitHub, Kong, Reddit, Discord), perhaps with a unit (OpenAI, Azure, Groq) and
///   a window (Cerebras, Mistral); X-Rate-Limit (X, Okta); ratelimitbysize (Mistral); X-HubSpot-RateLimit;
///   anthropic-ratelimit; X-Shopify-Shop-Api-Call-Limit: 37/40;
/// - its part of the server: X-RateLimit-Resource (GitHub), X-RateLimit-Bucket (Discord).
/// A count may have a fraction, which is dropped. A reset is a number of seconds, a span such as 6m0s, or an instant:
/// in seconds or milliseconds since 1970, or a date of HTTP or RFC 3339. The fraction of a time is rounded up.
/// x-should-retry: false (Anthropic, OpenAI) forbids another attempt.
///
/// A value that can't be read counts as if it were not there. Quotas beyond the first 16 count as absent, too.
///
/// Source: RFC 9110, 10.2.3; draft-ietf-httpapi-ratelimit-headers, versions 02 to 11; the pages on rate limits in the
/// documents of these servers. Of x-amz-retry-after the AWS SDKs.
/// Allocates: never.
class limit_fields {
 public:
  void take(std::string_view name, std::string_view value) noexcept;

  /// All limits that the fields report. A quota without its rest is left out.
  ///
  /// An instant is compared with the response's own Date, so a wrong clock on either side does no harm; with `now` if
  /// it has none. An instant in the past is no wait. No time is longer than `most`.
  told_limits read(std::chrono::system_clock::time_point now, duration most) const noexcept;

 private:
  struct row {
    quota_name key;
    std::string_view policy;  // the policy's name in the draft's lists
    std::string_view reset;
    bool is_reset_after = false;
    bool is_of_other_unit = false;
    told_quota told;
  };

  row* find(const quota_name& key, std::string_view policy) noexcept;
  void take_part(const quota_name& name, std::string_view value) noexcept;
  void take_list(std::string_view list, bool is_policy) noexcept;
  void take_element(std::string_view element, bool is_policy) noexcept;

  std::optional<duration> retry_seconds_, retry_ms_, amazon_ms_;
  std::optional<std::chrono::sys_seconds> retry_date_;
  std::string_view date_;
  std::string_view resource_;
  bool forbids_retry_ = false;
  std::array<row, told_limits::most_quotas> rows_{};
  std::size_t size_ = 0;
};

/// Whether a response of this status may refuse a call because of a limit, and tell in its quotas for how long.
constexpr bool is_refusal_by_limit(int status) noexcept {
  return status == 403 || status == 429 || status == 503 || status == 529;
}

}  // namespace canigo::detail
