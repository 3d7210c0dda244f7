#pragma once

#include <string>
#include <string_view>

namespace fetch {

/// Whether the scheme is http or https, in any case, and a host follows.
bool is_http(std::string_view url);

/// Scheme, host and port in lower case, without a default port. URLs with the same origin belong to one server.
std::string origin_of(std::string_view url);

/// Without port. Of http://[::1]/ it is ::1.
std::string_view host_of(std::string_view url);

/// The last part of the path, without the query; "index" if that is empty.
std::string_view file_of(std::string_view url);

/// `url` with the name and password of `before` if it leads to the same server and has none, as browsers do it.
std::string with_credentials_of(std::string_view before, std::string url);

/// `url` with these credentials, NAME:PASSWORD or none, if it has none.
std::string with_credentials(std::string url, std::string_view credentials);

/// The URL with `***` instead of name and password, because both may be secret. Also for text that only looks like a
/// URL.
std::string without_credentials(std::string_view url);

}  // namespace fetch
