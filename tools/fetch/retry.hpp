#pragma once

#include <canigo/http/response.hpp>

#include "call.hpp"

#include <string_view>

namespace fetch {

/// Whether the server says that it has not executed the request, and that another attempt may succeed later. A 429, 503
/// or 529 says so, and a 403 that names a wait, as GitHub's does.
bool is_refused(const canigo::http::response& r);

/// Whether the server says that another attempt would fail, too: by the field "x-should-retry: false".
bool is_final(const canigo::http::response& r);

/// Whether another attempt may succeed and does no harm. Precondition: the call has ended, with an error or a status.
///
/// A request that was certainly not executed may be repeated with any method: it was refused, or the server was not
/// reached. A request that may have been executed is repeated only if its method is idempotent: the connection broke, a
/// timeout passed, or the status is 408, 500, 502 or 504.
bool is_worth_another(const call& c, std::string_view method);

}  // namespace fetch
