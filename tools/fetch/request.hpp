#pragma once

#include <canigo/http/headers.hpp>
#include <canigo/http/request.hpp>

#include "call.hpp"

#include <string>
#include <string_view>

namespace fetch {

/// What all calls have, unless their lines say otherwise.
struct common_parts {
  std::string method;             ///< empty: POST with a body, else GET
  canigo::http::headers headers;  ///< a call's own field replaces those of its name
  std::string body;               ///< a form, if no field says what it is
  std::string credentials;        ///< NAME:PASSWORD as part of a URL, for a URL that has none; empty: none
};

/// The method of the next request, after all redirects.
std::string_view method_of(const call& c, const common_parts& common);

/// Whether a request may be sent again though the first one may have been executed. Source: RFC 9110, 9.2.2.
bool is_idempotent(std::string_view method);

/// The next request of the call. Throws std::system_error, which names the file, if its body can't be read.
///
/// Another server than that of the call's URL gets neither credentials nor the fields Authorization and Cookie.
canigo::http::request request_of(const call& c, const common_parts& common);

/// The call goes on at `place`. As browsers do it, a POST becomes a GET at 301 and 302; any method but HEAD at 303.
void lead_on(call& c, const common_parts& common, std::string place);

/// What is allowed instead, or nothing if the method is good.
std::string_view problem_of_method(std::string_view method);
/// The problem with a header field, in words that do not show its value; nothing if it is good.
std::string problem_of_header(std::string_view name, std::string_view value);

/// NAME:PASSWORD with all that would end it in a URL as %XX.
std::string to_credentials(std::string_view text);

/// Most bytes of a body from a file.
inline constexpr std::size_t longest_body = 16 << 20;

/// Whether file_text() has a text to return. Throws what it would.
void check_file(const std::string& path);

/// The whole regular file. Throws std::system_error, which names it.
std::string file_text(const std::string& path);

}  // namespace fetch
