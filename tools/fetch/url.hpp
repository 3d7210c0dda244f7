#pragma once

#include <string>
#include <string_view>

namespace fetch {

/// Whether the URL has a host, and the scheme http or https, in upper or lower case.
bool is_http(std::string_view url);

/// Returns the scheme, host and port in lower case; the port is left out if it is the scheme's default. URLs with the
/// same origin belong to one server.
std::string origin_of(std::string_view url);

/// Returns the host without the port. For http://[::1]/ it is "::1".
std::string_view host_of(std::string_view url);

/// Returns the last part of the path, without the query; "index" if that part is empty.
std::string_view file_of(std::string_view url);

/// Returns `url`. If it has no credentials, and has the same server as `before`, adds the credentials of `before`, as
/// browsers do.
std::string with_credentials_of(std::string_view before, std::string url);

/// Returns `url`. If it has no credentials, adds `credentials`, which is NAME:PASSWORD or empty.
std::string with_credentials(std::string url, std::string_view credentials);

/// Returns the URL with `***` instead of the name and the password, because both may be secret. Works also for a text
/// that only looks like a URL.
std::string without_credentials(std::string_view url);

}  // namespace fetch
