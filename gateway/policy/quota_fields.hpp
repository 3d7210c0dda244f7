#pragma once

#include "canigo/rate_limit.hpp"
#include "canigo/time.hpp"

#include "gateway/wire/message.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace canigo::gateway {

/// The rest of its quotas that an upstream tells, by unit. Of several quotas of a unit it is the one with the least.
struct quota_left {
  std::optional<std::uint64_t> requests;
  std::optional<std::uint64_t> tokens;
  std::optional<std::uint64_t> input_tokens;
  std::optional<std::uint64_t> output_tokens;

  std::optional<std::uint64_t> of(std::string_view unit) const noexcept;
  friend bool operator==(const quota_left&, const quota_left&) = default;
};

/// Reads RateLimit and RateLimit-Remaining, X-RateLimit-Remaining with -Requests or -Tokens, and
/// anthropic-ratelimit-UNIT-remaining. A value that can't be read counts as if it were not
/// there.
///
/// Source: draft-ietf-httpapi-ratelimit-headers, its versions 02 to 10; the documents of OpenAI, Anthropic and GitHub.
/// Allocates: never.
quota_left read_quota(const message_head& response) noexcept;

/// The tokens that a rate may keep if the upstream says that `left` of its unit are left: as many.
///
/// But a header may not stop the upstream for longer than an hour. So a full burst drops no more than the rate makes in
/// an hour.
std::uint64_t tokens_to_keep(const rate_limit& r, std::uint64_t left) noexcept;

/// How long the upstream asks to wait: Retry-After in seconds, or as a date, which is compared with the response's own
/// Date, or with `now` if it has none. A fraction of a second is rounded up to milliseconds. Zero for a date in the
/// past; never more than `most`. Of several such fields the longest time counts. Nothing: none of them can be read.
///
/// Source: RFC 9110, 10.2.3.
std::optional<duration> read_retry_after(const message_head& response, std::chrono::system_clock::time_point now,
                                         duration most = std::chrono::hours{1}) noexcept;

}  // namespace canigo::gateway
