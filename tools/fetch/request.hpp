#pragma once

#include <canigo/http/headers.hpp>
#include <canigo/http/request.hpp>

#include "call.hpp"

#include <string>
#include <string_view>

namespace fetch {

/// The parts of all requests, unless a line of the input replaces them.
struct common_parts {
  std::string method;             ///< empty: POST for a request with a body, else GET
  canigo::http::headers headers;  ///< a call's own field replaces the fields of the same name
  std::string body;               ///< sent as a form, unless a field Content-Type says otherwise
  std::string credentials;        ///< NAME:PASSWORD, encoded for a URL, for URLs without credentials; empty: none
};

/// Returns the method of the call's next request, after all redirects.
std::string_view method_of(const call& c, const common_parts& common);

/// Whether a request may be sent again although the first one may have been executed. Source: RFC 9110, 9.2.2.
bool is_idempotent(std::string_view method);

/// Builds the next request of the call. Throws std::system_error, which names the file, if its body can't be read.
///
/// Credentials and the fields Authorization and Cookie are sent only to the server of the call's URL.
canigo::http::request request_of(const call& c, const common_parts& common);

/// Lets the call follow a redirect to `place`. As in browsers, POST becomes GET after 301 and 302, and any method
/// except HEAD after 303.
void lead_on(call& c, const common_parts& common, std::string place);

/// Returns the allowed form of a method; empty if the method is valid.
std::string_view problem_of_method(std::string_view method);
/// Returns the problem with a header field, without the field's value; empty if the field is valid.
std::string problem_of_header(std::string_view name, std::string_view value);

/// Encodes NAME:PASSWORD for a URL: characters that would end it are written as %XX.
std::string to_credentials(std::string_view text);

/// The max size of a body that is read from a file, in bytes.
inline constexpr std::size_t longest_body = 16 << 20;

/// Throws the exception that file_text() would throw.
void check_file(const std::string& path);

/// Reads the whole regular file. Throws std::system_error, which names the file.
std::string file_text(const std::string& path);

}  // namespace fetch
