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

/// A pause that a response asks for is no longer, so that a mistake there does not stop an upstream for days.
inline constexpr duration longest_pause = std::chrono::hours{1};

/// The limits that a response reports for its upstream. Their texts lie in the head. No time is longer than `most`.
///  `body`: the whole body, if it may report limits, too; else empty. The body names a wait if the head does not. If it
/// says that a quota is used up for long, no other attempt helps. Such a quota is often of one model, so it asks no
/// other call to wait.
/// Throws std::bad_alloc if there is a body. Allocates: only if there is a body.
told_limits read_limits(const message_head& response, std::string_view body, std::chrono::system_clock::time_point now,
                        duration most = longest_pause);

/// The meaning of a response, with the limits that it reports, for another attempt.
inline attempt_result result_of(const message_head& response, const told_limits& told) noexcept {
  const bool tells_limit = told.retry_after || told.has_used_up();
  return {attempt_end_kind::answered, response.status, tells_limit, told.forbids_retry};
}

/// The least rest of the quotas that count what `r` counts; nothing: no such quota is reported.
///  Some fields tell of another quota than the one that `r` stands for. GitHub's search has 3 of 30 left, while 4,900
/// of 5,000 are left elsewhere. So a quota with less than half of the rate is left out. A quota of a part of the
/// upstream other than "core" may not have more than twice the rate either. Without a window a limit is taken for one
/// of the rate's own period.
std::optional<std::uint64_t> rest_for(const told_limits& told, const rate_limit& r) noexcept;

/// The tokens that a rate may keep if the upstream says that `left` of its unit are left: `left`.
///
/// But a header may not stop the upstream for longer than an hour. So a full burst drops no more than the rate makes in
/// an hour.
std::uint64_t tokens_to_keep(const rate_limit& r, std::uint64_t left) noexcept;

}  // namespace canigo::gateway
