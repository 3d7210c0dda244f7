#pragma once

#include "canigo/detail/told/told_limits.hpp"
#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include "gateway/policy/repeat_rules.hpp"
#include "gateway/wire/message.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace canigo::gateway {

using canigo::detail::told_limits;

/// The longest pause that a response can cause. So a mistake in a response does not stop an upstream for days.
inline constexpr duration longest_pause = std::chrono::hours{1};

/// Reads the limits that a response reports for its upstream. The result refers to texts in the head. No time in it is
/// longer than `most`.
///
/// `body`: the whole body, if it may report limits; else empty. The wait in the body counts if the head names none. If
/// the body says that a quota is used up for a long time, another attempt is useless. Such a quota often belongs to one
/// model, so it pauses no other calls.
/// Throws std::bad_alloc if there is a body. Allocates: only if there is a body.
told_limits read_limits(const message_head& response, std::string_view body, std::chrono::system_clock::time_point now,
                        duration most = longest_pause);

/// Returns the properties of a response, and of the limits that it reports, that decide about another attempt.
inline attempt_result result_of(const message_head& response, const told_limits& told) noexcept {
  const bool tells_limit = told.retry_after || told.has_used_up();
  return {attempt_end_kind::answered, response.status, tells_limit, told.forbids_retry};
}

/// Returns the least remainder among the reported quotas that match the rate `r`; nothing if none matches.
///
/// A field may report a quota that `r` does not stand for. For example, GitHub's search reports 3 of 30 left, while
/// 4,900 of 5,000 calls are left elsewhere. So a quota with less than half of the rate is ignored. A quota of a part of
/// the upstream other than "core" is also ignored if it has more than twice the rate. A quota without a window counts
/// as a quota of the rate's own period.
std::optional<std::uint64_t> rest_for(const told_limits& told, const rate_limit& r) noexcept;

/// Returns how many tokens the rate `r` keeps when the upstream reports that `left` of its unit are left: `left` or
/// more.
///
/// A header may not stop the upstream for longer than an hour. So of a full burst at most one hour's worth of tokens is
/// dropped.
std::uint64_t tokens_to_keep(const rate_limit& r, std::uint64_t left) noexcept;

}  // namespace canigo::gateway
