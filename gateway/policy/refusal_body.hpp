#pragma once

#include "canigo/time.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// At most this many bytes of a refusal's body are read before the refusal is judged.
inline constexpr std::size_t most_refusal_body = std::size_t{16} << 10;

/// A used-up daily quota that a response has reported.
struct told_day_quota {
  std::string name;
  bool is_of_model = false;  ///< true: the quota is only for the call's model; false: it is for all calls

  friend bool operator==(const told_day_quota&, const told_day_quota&) = default;
};

/// The limits that the body of a refusal reports.
struct told_in_body {
  std::optional<duration> wait;
  bool lasts = false;  ///< a daily or monthly quota, or the money, is used up, so it is useless for a call to wait
  std::optional<told_day_quota> day = {};

  friend bool operator==(const told_in_body&, const told_in_body&) = default;
};

/// Reads the errors of five APIs:
/// - Gemini: the `retryDelay` of a google.rpc.RetryInfo. "PerDay" in the `quotaId` of a google.rpc.QuotaFailure means a
///   daily quota. The quota belongs to one model if the `quotaId` contains "PerModel", or if `quotaDimensions` has a
///   `model`;
/// - OpenAI: the `type` or `code` "insufficient_quota", and four further codes, such as "credit_balance_exhausted";
/// - Anthropic: the `error_code` "enforced_spend_limit_reached";
/// - Discord: `retry_after`, in seconds with a fraction, rounded up to milliseconds;
/// - GitHub: "secondary rate limit" in the `message`, which means a wait of a minute.
///
/// Returns an empty result for a text that is no JSON, or is cut off.
///
/// Source: the documents of Gemini (google.rpc.Status), OpenAI (error codes), Anthropic (errors), Discord (rate limits)
/// and GitHub (rate limits for the REST API).
/// Throws std::bad_alloc.
told_in_body read_refusal_body(std::string_view body);

}  // namespace canigo::gateway
