#pragma once

#include <canigo/http/response.hpp>

#include <string>

namespace fetch {

/// Where the response to a request of `url` leads, as an absolute URL; empty if it is no redirect. A target that is no
/// URL is returned as it came.
std::string redirect_of(const canigo::http::response& head, const std::string& url);

}  // namespace fetch
