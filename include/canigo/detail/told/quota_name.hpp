#pragma once

#include "canigo/time.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace canigo::detail {

/// The unit that a quota counts.
enum class told_unit : std::uint8_t { requests, tokens, input_tokens, output_tokens };

/// The prefixes of header fields that report quotas.
enum class quota_family : std::uint8_t { draft, common, spaced, anthropic, hubspot, by_size };

/// The parsed name of a header field that reports a quota: which quota, and which of its values.
struct quota_name {
  enum class part : std::uint8_t { limit, left, reset, reset_after, window_ms, resource };

  part what = part::limit;
  quota_family family = quota_family::draft;
  told_unit unit = told_unit::requests;
  bool names_unit = false;
  duration window = duration::zero();  ///< the window that the name states, such as a minute; zero: no window is stated

  friend bool operator==(const quota_name&, const quota_name&) = default;
};

/// Parses names such as X-RateLimit-Remaining, x-ratelimit-reset-tokens-minute and X-HubSpot-RateLimit-Daily: a prefix,
/// then words for the value, the unit and the window in any order. Returns std::nullopt if a word is unknown.
///
/// Source: the servers' documentation. The comment of limit_fields names these servers.
/// Allocates: never.
std::optional<quota_name> parse_quota_name(std::string_view name) noexcept;

}  // namespace canigo::detail
