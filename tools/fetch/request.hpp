#pragma once

#include <canigo/http/headers.hpp>
#include <canigo/http/request.hpp>

#include "call.hpp"

#include <string>
#include <string_view>

namespace fetch {

/// The parts of a request that the options give to all calls. A line of the input may replace them for its call.
struct common_parts {
  std::string method;             ///< empty: POST for a request with a body, otherwise GET
  canigo::http::headers headers;  ///< a call's own field replaces the fields with its name
  std::string body;               ///< is sent as a form, unless a field Content-Type says otherwise
  std::string credentials;        ///< NAME:PASSWORD, encoded for a URL; added to URLs without credentials; empty: none
};

/// Returns the method of the call's next request, after all redirects.
std::string_view method_of(const call& c, const common_parts& common);

/// Whether a request with this method may be sent again although it may already have been executed. Source: RFC 9110,
/// 9.2.2.
bool is_idempotent(std::string_view method);

/// Builds the next request of the call. If the request's body can't be read, throws std::system_error, which names the
/// file.
///
/// Credentials, and the fields Authorization and Cookie, are sent only to the server of the call's URL, and not to the
/// target of a redirect at another server.
canigo::http::request request_of(const call& c, const common_parts& common);

/// Makes the call follow a redirect to `place` with its next request. As in browsers, POST becomes GET after 301 and
/// 302. After 303, any method except HEAD becomes GET.
void lead_on(call& c, const common_parts& common, std::string place);

/// If the method is invalid, returns a text that describes the allowed methods; otherwise returns an empty text.
std::string_view problem_of_method(std::string_view method);
/// Returns the problem with a header field; empty if the field is valid. The text does not contain the field's value,
/// which may be a secret.
std::string problem_of_header(std::string_view name, std::string_view value);

/// Encodes NAME:PASSWORD for a URL: characters that would end this part of the URL are written as %XX.
std::string to_credentials(std::string_view text);

/// The max size of a body that is read from a file, in bytes.
inline constexpr std::size_t longest_body = 16 << 20;

/// Throws the exception that file_text() would throw; otherwise does nothing.
void check_file(const std::string& path);

/// Reads a whole regular file. If that fails, throws std::system_error, which names the file.
std::string file_text(const std::string& path);

}  // namespace fetch
