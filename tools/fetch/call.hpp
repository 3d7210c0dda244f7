#pragma once

#include <canigo/adaptive_limit.hpp>
#include <canigo/http/headers.hpp>
#include <canigo/time.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace fetch {

/// One call: its request, and its result so far.
struct call {
  std::size_t order = 0;        ///< the number of the call's line among the well-formed lines, from 1
  std::uint64_t line_hash = 0;  ///< the hash of the call's line
  int priority = 0;
  std::string url;
  std::optional<std::string> id;  ///< the name of the call in the output; none: it has no name
  bool id_is_number = false;
  std::string file;                 ///< the file in which the response's body is stored; empty: no file
  std::string method;               ///< empty: the call uses the method that the options give to all calls
  canigo::http::headers headers;    ///< the call's own fields; a field replaces the fields of all calls with its name
  std::optional<std::string> body;  ///< none: the call uses the body that the options give to all calls
  std::string body_file;            ///< the file from which the body is read; empty: there is no such file

  std::string place;           ///< the target of the last redirect, used instead of `url`; empty: no redirect
  bool became_get = false;     ///< a redirect has changed the method to GET and dropped the body
  int attempts = 0;            ///< the number of attempts; a request that follows a redirect is no new attempt
  int redirects = 0;           ///< the number of redirects that were followed
  canigo::time_point queued;   ///< when the call last began to wait
  canigo::time_point started;  ///< when the call was last sent
  canigo::duration waited{0};  ///< the sum of the waits of all requests of this call
  bool is_ahead = false;       ///< the call was read although its class had already reached the read-ahead limit
  bool was_led_here = false;   ///< the next request follows a redirect, so it is no new attempt
  /// A permit of the server's adaptive limit, held while the call runs. Empty if the server has no adaptive limit.
  canigo::adaptive_permit place_at_server;
  std::error_code error;
  std::error_code failed_with;  ///< the error whose text is in `problem`
  std::string problem;
  int status = 0;
  bool is_refused = false;  ///< the server has not executed the call, and asks for another attempt later
  bool is_final = false;    ///< the server says that another attempt would fail, too
  std::uint64_t bytes = 0;
  bool is_saved = false;  ///< whether the response's body was stored in `file`

  const std::string& target() const noexcept { return place.empty() ? url : place; }
  bool was_sent() const noexcept { return attempts > 0; }
  bool ok() const noexcept { return !error && status < 400; }
  std::string id_as_json() const;
  /// Returns how much memory this call uses, in bytes.
  std::size_t size() const;
  /// Stores the error of a failed request in `error` and in `problem`. `problem` gets the error's text, in which the
  /// names of the HTTP client's options are replaced by those of canigo-fetch.
  void failed(const std::system_error& e);
  std::string why() const { return error == failed_with ? problem : error.message(); }
};

/// The result of parsing a line: either a call, or the problem with the line.
struct parsed_line {
  std::optional<call> value;
  std::string problem;
};

/// Parses a line of the form "PRIORITY URL", or a JSON object. For an empty line or a comment, the result has neither a
/// call nor a problem.
parsed_line parse_line(std::string_view line, int priorities);

}  // namespace fetch
