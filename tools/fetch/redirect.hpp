#pragma once

#include <canigo/http/response.hpp>

#include <string>

namespace fetch {

/// Returns the target of a redirect as an absolute URL; empty if the response to the request of `url` is no redirect. A
/// target that is no URL is returned unchanged.
std::string redirect_of(const canigo::http::response& head, const std::string& url);

}  // namespace fetch
