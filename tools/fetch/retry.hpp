#pragma once

#include <canigo/http/response.hpp>

#include "call.hpp"

#include <string_view>

namespace fetch {

/// Whether the server says that it has not executed the request, and that another attempt may succeed later. A response
/// with the status 429, 503 or 529 says so. A 403 says so if it names a wait, as GitHub's 403 does.
bool is_refused(const canigo::http::response& r);

/// Whether the server says that another attempt would fail, too: by the field "x-should-retry: false".
bool is_final(const canigo::http::response& r);

/// Whether another attempt may succeed and does no harm. Precondition: the call has ended, with an error or a status.
///
/// If the server refused the request or was not reached, the request was certainly not executed. So it may be repeated
/// with any method. If the connection broke, a timeout passed, or the status is 408, 500, 502 or 504, the request may
/// have been executed. So it is repeated only if its method is idempotent.
bool is_worth_another(const call& c, std::string_view method);

}  // namespace fetch
