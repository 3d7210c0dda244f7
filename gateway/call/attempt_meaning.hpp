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
  if_safe,  ///< sent again if the method may be sent twice: the upstream may have the request
  always,   ///< the upstream has not seen the request
  follows,  ///< decided when the response was dropped
};

/// How the call's place and its tokens are settled.
enum class settlement : std::uint8_t {
  give_back,  ///< nothing was sent: place and tokens are as before
  keep,       ///< the place was used; tokens are charged as estimated, with the part that is known
  charge,     ///< the whole response is known, and with it the usage
  release,    ///< the place was used; the next attempt charges
};

/// The consequences of an end for the call. A value without I/O: a table has one for each end.
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

/// Whether not even the head of the request went out.
inline bool nothing_was_sent(attempt_end end) noexcept { return meaning_of(end).place == settlement::give_back; }

}  // namespace canigo::gateway
