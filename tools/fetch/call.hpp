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
  std::size_t order = 0;        ///< the call's number among the well-formed lines, from 1
  std::uint64_t line_hash = 0;  ///< the hash of the call's line
  int priority = 0;
  std::string url;
  std::optional<std::string> id;  ///< the name of the call in the results
  bool id_is_number = false;
  std::string file;                 ///< the file for the response's body; empty: no file
  std::string method;               ///< empty: the method that the options give to all calls
  canigo::http::headers headers;    ///< added to the fields of all calls; replaces fields with the same name
  std::optional<std::string> body;  ///< unset: the body that the options give to all calls
  std::string body_file;            ///< the file that contains the body; empty: there is no such file

  std::string place;           ///< the target of the last redirect, which replaces `url`; empty: no redirect
  bool became_get = false;     ///< a redirect has changed the method to GET and dropped the body
  int attempts = 0;            ///< the number of attempts; the next hop of a redirect is no new attempt
  int redirects = 0;           ///< the number of redirects followed
  canigo::time_point queued;   ///< when the call last began to wait
  canigo::time_point started;  ///< when the call was last sent
  canigo::duration waited{0};  ///< the waits of all requests of this call together
  bool is_ahead = false;       ///< the call exceeds the read-ahead limit of its class
  bool was_led_here = false;   ///< the next request follows a redirect, so it is no new attempt
  /// Held while the call runs. Empty: the limit of the server is not adaptive.
  canigo::adaptive_permit place_at_server;
  std::error_code error;
  std::error_code failed_with;  ///< the error that `problem` describes
  std::string problem;
  int status = 0;
  bool is_refused = false;  ///< the server has not executed the call, and asks for another attempt later
  bool is_final = false;    ///< the server says that another attempt would fail again
  std::uint64_t bytes = 0;
  bool is_saved = false;  ///< the body is stored in `file`

  const std::string& target() const noexcept { return place.empty() ? url : place; }
  bool was_sent() const noexcept { return attempts > 0; }
  bool ok() const noexcept { return !error && status < 400; }
  std::string id_as_json() const;
  /// Returns the memory that this call uses, in bytes.
  std::size_t size() const;
  /// Stores the error of a request, with its text in the words of this program.
  void failed(const std::system_error& e);
  std::string why() const { return error == failed_with ? problem : error.message(); }
};

/// The result of parsing a line: a call, or the problem with the line.
struct parsed_line {
  std::optional<call> value;
  std::string problem;
};

/// Parses "PRIORITY URL", or a JSON object. Returns neither a call nor a problem for an empty line or a comment.
parsed_line parse_line(std::string_view line, int priorities);

}  // namespace fetch
