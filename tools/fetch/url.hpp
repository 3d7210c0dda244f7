#pragma once

#include <string>
#include <string_view>

namespace fetch {

/// Whether the URL has the scheme http or https, in upper or lower case, and a host.
bool is_http(std::string_view url);

/// Returns the scheme, host and port in lower case, without a default port. URLs with the same origin belong to one
/// server.
std::string origin_of(std::string_view url);

/// Returns the host without the port. For http://[::1]/ it is "::1".
std::string_view host_of(std::string_view url);

/// Returns the last part of the path, without the query; "index" if that part is empty.
std::string_view file_of(std::string_view url);

/// Returns `url`. If it has no credentials and leads to the same server as `before`, the credentials of `before` are
/// added, as in browsers.
std::string with_credentials_of(std::string_view before, std::string url);

/// Returns `url`. If it has no credentials, the given ones are added. `credentials`: NAME:PASSWORD, or empty.
std::string with_credentials(std::string url, std::string_view credentials);

/// Returns the URL with `***` in the place of name and password, because both may be secret. Works also for text that
/// only looks like a URL.
std::string without_credentials(std::string_view url);

}  // namespace fetch
