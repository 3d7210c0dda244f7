#pragma once

#include "gateway/wire/message.hpp"

#include <cstdint>

namespace canigo::gateway {

/// How an attempt at an upstream ended, as far as this matters for the decision about another attempt.
enum class attempt_end_kind : std::uint8_t {
  unreachable,  ///< the connection or TLS failed, or the stream was refused: the upstream has not read the request
  lost,         ///< the connection was reset, or the attempt timed out, before the first byte of the response
  answered,     ///< a response came, but no byte of it has been passed on to the client
  begun,        ///< a byte of the response has been passed on to the client
};

struct attempt_result {
  attempt_end_kind how = attempt_end_kind::unreachable;
  // The following members are set only if a response came.
  int status = 0;
  bool tells_limit = false;    ///< the response names a time to wait, or a used-up quota
  bool forbids_retry = false;  ///< the same call would fail again, even after a wait
};

/// Whether a request may be sent again, judged only by how its attempt ended. The caller must also check the number of
/// attempts, the deadline and the retry budget.
enum class repeat : std::uint8_t {
  no,
  yes,
  yes_after_pause,  ///< yes, but the caller must first pause the calls to the upstream, or the calls of the tenant
};

/// Decides whether a request may be sent again after an attempt with this result. `has_whole_body`: all bytes of the
/// request's body that were read so far are still in memory.
///
/// Source: RFC 9110, 9.2.2 for the methods that may be sent twice.
repeat judge_repeat(const message_head& request, const attempt_result& result, bool has_whole_body) noexcept;

/// Whether a response asks the gateway to pause calls to the upstream. A 429 or 529 does, and so does a 403 or 503 that
/// reports a limit. The result does not depend on whether the request may be sent again.
bool asks_for_pause(const attempt_result& result) noexcept;

/// Whether an attempt with this result counts as a failure in the upstream's circuit breaker. A failed connection, a
/// lost response, and the statuses 500, 502, 503, 504 and 529 count. The status 429 does not.
bool counts_as_failure(const attempt_result& result) noexcept;

/// Whether a request is idempotent: GET, HEAD, OPTIONS, PUT and DELETE, and any method with an Idempotency-Key.
bool may_be_sent_twice(const message_head& request) noexcept;

}  // namespace canigo::gateway
