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

/// A quota that a response reports. Its views refer to the response.
struct told_quota {
  told_unit unit = told_unit::requests;
  std::string_view resource;           ///< the part of the server for which the quota holds; empty: not reported
  std::optional<std::uint64_t> limit;  ///< the amount that may be used per window
  std::optional<std::uint64_t> left;
  std::optional<duration> window;
  std::optional<duration> reset;  ///< the time until the whole quota is available again
  bool refills = false;           ///< whether parts of the quota become available again before its reset

  bool is_used_up() const noexcept { return left == 0u; }
};

/// The limits that a response reports for its server. Their views refer to the response.
struct told_limits {
  static constexpr std::size_t most_quotas = 16;

  std::optional<duration> retry_after;  ///< the wait that the response requests
  bool forbids_retry = false;           ///< whether the response says that a retry would fail again
  std::array<told_quota, most_quotas> all{};
  std::size_t size = 0;

  std::span<const told_quota> quotas() const noexcept { return {all.data(), size}; }
  bool has_used_up() const noexcept;
  /// The longest reset time of the used-up quotas; std::nullopt if none of them reports one. A quota that refills
  /// gradually counts only after a refusal, because a part of it is available long before its reset.
  std::optional<duration> reset_of_used_up(bool is_refused) const noexcept;
  /// How long a refused call must wait: the wait that the response requests. If the response requests none, it is the
  /// longest time until a used-up quota is reset.
  std::optional<duration> wait_of_refusal() const noexcept;
};

/// Collects the limits that the header fields of a response report, one field after the other. It keeps views of the
/// values.
///
/// Fields with a wait: Retry-After, in seconds or as a date. A field retry-after-ms of Azure and OpenAI has precedence
/// over Retry-After. If a response has neither of these fields, x-amz-retry-after in milliseconds is used. If a field
/// occurs twice, the longest time is used.
///
/// Fields with a quota, that is, its limit, its remaining amount and its reset:
/// - RateLimit and RateLimit-Policy in the forms of all versions of the draft, RateLimit-Remaining and related fields;
/// - X-RateLimit-Remaining and related fields (GitHub, Kong, Reddit, Discord), perhaps with a unit (OpenAI, Azure,
///   Groq) and a window (Cerebras, Mistral); X-Rate-Limit (X, Okta); ratelimitbysize (Mistral); X-HubSpot-RateLimit;
///   anthropic-ratelimit; X-Shopify-Shop-Api-Call-Limit: 37/40;
/// - the part of the server: X-RateLimit-Resource (GitHub), X-RateLimit-Bucket (Discord).
/// The fraction of a count is dropped. A reset is a number of seconds, a span such as 6m0s, or an instant. An instant
/// is in seconds or milliseconds since 1970, or a date in the format of HTTP or RFC 3339. The fraction of a time is
/// rounded up.
/// x-should-retry: false (Anthropic, OpenAI) forbids another attempt.
///
/// A value that can't be parsed is ignored, and so are quotas beyond the first 16.
///
/// Source: RFC 9110, 10.2.3; draft-ietf-httpapi-ratelimit-headers, versions 02 to 11; the documentation of these
/// servers about rate limits. For x-amz-retry-after: the AWS SDKs.
/// Allocates: never.
class limit_fields {
 public:
  void take(std::string_view name, std::string_view value) noexcept;

  /// All limits that the fields report. A quota is left out if the fields do not report its remaining amount.
  ///
  /// If a field contains an instant, the instant is compared with the response's own Date field. So a wrong clock on
  /// either side does no harm. Without a Date field, the instant is compared with `now`. An instant in the past means
  /// no wait. No time in the result is longer than `most`.
  told_limits read(std::chrono::system_clock::time_point now, duration most) const noexcept;

 private:
  struct row {
    quota_name key;
    std::string_view policy;  // the name of the policy in the fields RateLimit and RateLimit-Policy
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

/// Whether a response of this status may refuse a call because of a limit, so that its quotas tell how long to wait.
constexpr bool is_refusal_by_limit(int status) noexcept {
  return status == 403 || status == 429 || status == 503 || status == 529;
}

}  // namespace canigo::detail
