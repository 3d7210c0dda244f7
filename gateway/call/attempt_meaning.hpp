#pragma once

#include "gateway/call/call_counts.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/policy/repeat_rules.hpp"
#include "gateway/upstream/attempt_end.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace canigo::gateway {

/// Whether a call whose attempt has ended is sent again, as far as that depends on the end alone.
enum class another_attempt : std::uint8_t {
  never,
  if_safe,  ///< sent again if the method may be sent twice, because the upstream may have the request
  always,   ///< the upstream has not seen the request
  follows,  ///< the call decided it earlier, when it dropped the response
};

/// How the call's place and tokens are settled after the attempt.
enum class settlement : std::uint8_t {
  give_back,  ///< nothing was sent: the place and all tokens are given back
  keep,       ///< the place is released; tokens are charged by the estimate, and by the usage as far as it is known
  charge,     ///< the place is released; tokens are charged by the usage that the response told
  release,    ///< the place is released; the next attempt charges the tokens
};

/// The consequences of an attempt's end for its call. A table has one value for each end.
struct attempt_meaning {
  another_attempt again = another_attempt::never;
  retry_reason counted_as = retry_reason::connect;   ///< the reason that is counted if the call is sent again
  std::optional<attempt_end_kind> for_breaker = {};  ///< the end that the breaker counts, if there is no response
  settlement place = settlement::keep;
  int status = 0;                ///< the status of the gateway's own answer; 0: it gives none
  std::string_view error = {};   ///< the error of that answer
  std::string_view detail = {};  ///< the detail of that answer, for a person
  std::string_view logged = {};  ///< the error that the record gets; empty: the answer's error
};

const attempt_meaning& meaning_of(attempt_end end) noexcept;

/// Whether the attempt ended before any byte of the request was sent.
inline bool nothing_was_sent(attempt_end end) noexcept { return meaning_of(end).place == settlement::give_back; }

}  // namespace canigo::gateway
