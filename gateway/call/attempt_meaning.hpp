#pragma once

#include "gateway/call/call_counts.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/policy/repeat_rules.hpp"
#include "gateway/upstream/attempt_end.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace canigo::gateway {

/// Whether a call is sent to an upstream again, judged only by how its last attempt ended.
enum class another_attempt : std::uint8_t {
  never,
  if_safe,  ///< sent again only if the method is idempotent, because the upstream may have received the request
  always,   ///< sent again, because the upstream has not received the request
  follows,  ///< sent again: the gateway has dropped the response to make another attempt
};

/// How a call's permits at the upstream and its tokens are settled after an attempt.
enum class settlement : std::uint8_t {
  give_back,  ///< nothing was sent: the call's permits and all its tokens are given back
  keep,       ///< the permits are released; the tokens are charged by the usage read so far, or else by the estimate
  charge,     ///< the call's permits are released; its tokens are charged by the usage that the response reported
  release,    ///< the call's permits are released; its tokens are charged only after the next attempt
};

/// The consequences that the end of an attempt has for its call. There is one attempt_meaning for each attempt_end.
struct attempt_meaning {
  another_attempt again = another_attempt::never;
  retry_reason counted_as = retry_reason::connect;  ///< the reason under which metrics count the next attempt
  /// the result that the circuit breaker counts; none if a response came
  std::optional<attempt_end_kind> for_breaker = {};
  settlement place = settlement::keep;
  int status = 0;                ///< the status of the answer that the gateway itself gives; 0: it gives no answer
  std::string_view error = {};   ///< the value of X-Canigo-Error in the gateway's own answer
  std::string_view detail = {};  ///< the explanation in the gateway's own answer, for people
  std::string_view logged = {};  ///< the error in the access log; empty: the log shows `error`
};

const attempt_meaning& meaning_of(attempt_end end) noexcept;

/// Whether the attempt ended before any byte of the request was sent.
inline bool nothing_was_sent(attempt_end end) noexcept { return meaning_of(end).place == settlement::give_back; }

}  // namespace canigo::gateway
