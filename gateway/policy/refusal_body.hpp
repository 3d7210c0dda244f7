#pragma once

#include "canigo/time.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The most of a refusal's body that is read before the refusal is judged.
inline constexpr std::size_t most_refusal_body = std::size_t{16} << 10;

/// A quota of a day of which nothing is left.
struct told_day_quota {
  std::string name;
  bool is_of_model = false;  ///< of the model that the call was for; else of all calls

  friend bool operator==(const told_day_quota&, const told_day_quota&) = default;
};

/// Limits of which the body of a refusal tells.
struct told_in_body {
  std::optional<duration> wait;
  bool lasts = false;  ///< a quota of a day or a month, or money, is used up: no call can wait for it
  std::optional<told_day_quota> day = {};

  friend bool operator==(const told_in_body&, const told_in_body&) = default;
};

/// Reads the errors of five interfaces:
/// - of Gemini the `retryDelay` of a google.rpc.RetryInfo, and "PerDay" in the `quotaId` of a google.rpc.QuotaFailure,
///   which stands for a quota of a day. It is of a model if "PerModel" is in it, or `quotaDimensions` has a `model`;
/// - of OpenAI the `type` or `code` "insufficient_quota", and the codes of credits and of limits of spend and usage;
/// - of Anthropic the `error_code` "enforced_spend_limit_reached";
/// - of Discord `retry_after`, in seconds with a fraction, rounded up to milliseconds;
/// - of GitHub "secondary rate limit" in the `message`, which stands for a wait of a minute.
///
/// Nothing of a text that is no JSON, or only a part of one.
///
/// Source: the documents of Gemini (google.rpc.Status), OpenAI (error codes), Anthropic (errors), Discord (rate
/// limits) and GitHub (rate limits for the REST API).
/// Throws std::bad_alloc.
told_in_body read_refusal_body(std::string_view body);

}  // namespace canigo::gateway
