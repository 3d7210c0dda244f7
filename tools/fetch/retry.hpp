#pragma once

#include <canigo/http/response.hpp>

#include "call.hpp"

#include <string_view>

namespace fetch {

/// Whether the server, without having done anything, asks to come back later: by 429, 503 or 529, or by a 403 that
/// tells for how long, as GitHub's does.
bool is_refused(const canigo::http::response& r);

/// Whether the server says that another attempt would fail again: x-should-retry: false.
bool is_final(const canigo::http::response& r);

/// Whether another attempt may end better and does no harm. The call has ended: with its error, or with its status.
///
/// What was certainly not executed is worth one with any method: a refusal, or a server that was not reached. What may
/// have been executed is worth one if the method is idempotent: a connection that broke, a timeout, and the statuses
/// 408, 500, 502 and 504.
bool is_worth_another(const call& c, std::string_view method);

}  // namespace fetch
