#pragma once

#include <canigo/http/response.hpp>

#include <string>

namespace fetch {

/// Returns the target of a redirect as an absolute URL; empty if `head` is no redirect. `url`: the URL of the request.
/// A target that is no URL is returned unchanged.
std::string redirect_of(const canigo::http::response& head, const std::string& url);

}  // namespace fetch
