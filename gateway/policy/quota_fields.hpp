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

/// The longest pause that a response can cause, so that a mistake in a response does not stop an upstream for days.
inline constexpr duration longest_pause = std::chrono::hours{1};

/// Reads the limits that a response reports for its upstream. The result contains views of texts in the head. No wait
/// and no reset time in the result is longer than `most`.
///
/// `body`: the whole body, if it may report limits; otherwise empty. A wait that the body names is used only if the
/// head names none. If the body says that a quota is used up for a long time, the result forbids a retry. The wait in
/// the body is then not used, because such a quota often belongs to one model. Throws std::bad_alloc if there is a
/// body. Allocates: only if there is a body.
told_limits read_limits(const message_head& response, std::string_view body, std::chrono::system_clock::time_point now,
                        duration most = longest_pause);

/// Returns the facts that decide whether the call is sent again. They come from the response and from the limits that
/// the response reports.
inline attempt_result result_of(const message_head& response, const told_limits& told) noexcept {
  const bool tells_limit = told.retry_after || told.has_used_up();
  return {attempt_end_kind::answered, response.status, tells_limit, told.forbids_retry};
}

/// Returns the smallest remaining amount of the reported quotas that match the rate `r`; nothing if no quota matches.
///
/// A field may report a quota that does not belong to `r`. For example, GitHub's search reports 3 of 30 calls left,
/// while 4,900 of 5,000 calls to the rest of GitHub are left. So a quota is ignored if it allows less than half of the
/// rate `r`. A field may name the part of the upstream to which its quota applies. If this part is not "core", the
/// quota is also ignored if it allows more than twice the rate `r`. If a quota names no window, the period of `r` is
/// used as its window.
std::optional<std::uint64_t> rest_for(const told_limits& told, const rate_limit& r) noexcept;

/// Returns how many tokens the bucket of the rate `r` may keep when the upstream reports a quota with `left` units
/// left. The result is `left` or more.
///
/// A full bucket loses at most as many tokens as the rate refills within an hour. So a header can't stop the calls to
/// the upstream for longer than an hour.
std::uint64_t tokens_to_keep(const rate_limit& r, std::uint64_t left) noexcept;

}  // namespace canigo::gateway
