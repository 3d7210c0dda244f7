#pragma once

#include "gateway/call/call_counts.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/policy/repeat_rules.hpp"
#include "gateway/upstream/attempt_end.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace canigo::gateway {

/// Whether a call is sent again, as far as that depends only on how its attempt ended.
enum class another_attempt : std::uint8_t {
  never,
  if_safe,  ///< yes if the method is idempotent, because the upstream may have received the request
  always,   ///< yes, because the upstream has not received the request
  follows,  ///< yes: the call dropped the response to send the call again
};

/// How the place and the tokens of a call are settled after an attempt.
enum class settlement : std::uint8_t {
  give_back,  ///< nothing was sent: the place and all tokens are given back
  keep,       ///< the place is released; tokens are charged by the known usage, else by the estimate
  charge,     ///< the place is released; tokens are charged by the usage that the response reported
  release,    ///< the place is released; the next attempt charges the tokens
};

/// The consequences for a call of how its attempt ended. A table has one value for each attempt_end.
struct attempt_meaning {
  another_attempt again = another_attempt::never;
  retry_reason counted_as = retry_reason::connect;   ///< the reason under which a further attempt is counted
  std::optional<attempt_end_kind> for_breaker = {};  ///< the result that the breaker counts; none if a response came
  settlement place = settlement::keep;
  int status = 0;                ///< the status of the gateway's own answer; 0: there is no such answer
  std::string_view error = {};   ///< the value of X-Canigo-Error in that answer
  std::string_view detail = {};  ///< the explanation in that answer, for people
  std::string_view logged = {};  ///< the error in the access log; empty: the answer's error
};

const attempt_meaning& meaning_of(attempt_end end) noexcept;

/// Whether the attempt ended before any byte of the request was sent.
inline bool nothing_was_sent(attempt_end end) noexcept { return meaning_of(end).place == settlement::give_back; }

}  // namespace canigo::gateway
