#pragma once

#include "gateway/wire/message.hpp"

#include <cstdint>

namespace canigo::gateway {

/// How an attempt at an upstream ended, as far as another one depends on it.
enum class attempt_end_kind : std::uint8_t {
  unreachable,  ///< no connection, TLS failed, or the stream was refused: the upstream has not read the request
  lost,         ///< the connection was reset, or the time was over, before the first byte of the response
  answered,     ///< there is a response, of which nothing has been passed on
  begun,        ///< a byte of the response has been passed on
};

struct attempt_result {
  attempt_end_kind how = attempt_end_kind::unreachable;
  // The members for a response:
  int status = 0;
  bool tells_limit = false;    ///< the response names a wait, or a used-up quota
  bool forbids_retry = false;  ///< the same call would fail again, however long it waits
};

/// Whether a request may be sent again, by how its attempt ended. The number of attempts, the deadline and the budget
/// are judged elsewhere.
enum class repeat : std::uint8_t {
  no,
  yes,
  yes_after_pause,  ///< yes, and the limit of the upstream, or of the tenant, is paused first
};

/// `has_whole_body`: each byte of the request's body that was read is still there.
///
/// Source: RFC 9110, 9.2.2 for the methods that may be sent twice.
repeat judge_repeat(const message_head& request, const attempt_result& result, bool has_whole_body) noexcept;

/// Whether the upstream asks for a pause: by 429 and 529, and by 403 and 503 that tell of a limit. It does so, too, if
/// the request may not be sent again.
bool asks_for_pause(const attempt_result& result) noexcept;

/// Whether an attempt with this result counts against the upstream in its circuit breaker: an attempt without a
/// connection or an answer does. The statuses 500, 502, 503, 504 and 529 count, too; 429 does not.
bool counts_as_failure(const attempt_result& result) noexcept;

/// GET, HEAD, OPTIONS, PUT and DELETE, and any method with an Idempotency-Key.
bool may_be_sent_twice(const message_head& request) noexcept;

}  // namespace canigo::gateway
