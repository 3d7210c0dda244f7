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
  std::size_t order = 0;        ///< of its line among the good ones, from 1
  std::uint64_t line_hash = 0;  ///< of its line
  int priority = 0;
  std::string url;
  std::optional<std::string> id;  ///< its name in the results
  bool id_is_number = false;
  std::string file;                 ///< for its body; empty: none
  std::string method;               ///< empty: that of all calls
  canigo::http::headers headers;    ///< beside those of all calls, and instead of those with the same name
  std::optional<std::string> body;  ///< unset: that of all calls
  std::string body_file;            ///< holds the body; empty: none does

  std::string place;                        ///< the target of the last redirect, instead of `url`
  bool became_get = false;                  ///< by a redirect, which left the body behind
  int attempts = 0;                         ///< the first, and one for each time that it was told to come back later
  int redirects = 0;                        ///< followed
  canigo::time_point queued;                ///< since when it waits to be let go
  canigo::time_point started;               ///< when it was let go last
  canigo::duration waited{0};               ///< to be let go, all its requests together
  bool is_ahead = false;                    ///< beyond what its class may read ahead
  bool was_led_here = false;                ///< its next request is the next hop, and no new attempt
  canigo::adaptive_permit place_at_server;  ///< while it is under way; empty: the number of calls is not adaptive
  std::error_code error;
  std::error_code failed_with;  ///< the error that `problem` is the text of
  std::string problem;
  int status = 0;
  bool is_refused = false;  ///< the server, without having done anything, asks to come back later
  bool is_final = false;    ///< the server says that another attempt would fail again
  std::uint64_t bytes = 0;
  bool is_saved = false;  ///< in `file`

  const std::string& target() const noexcept { return place.empty() ? url : place; }
  bool was_sent() const noexcept { return attempts > 0; }
  bool ok() const noexcept { return !error && status < 400; }
  std::string id_as_json() const;
  /// Bytes of memory.
  std::size_t size() const;
  /// Notes the error of a request, in the words of this program.
  void failed(const std::system_error& e);
  std::string why() const { return error == failed_with ? problem : error.message(); }
};

/// The call in a line, or the problem with the line.
struct parsed_line {
  std::optional<call> value;
  std::string problem;
};

/// Reads "PRIORITY URL", or a JSON object. A line with neither value nor problem says nothing: it is empty or a
/// comment.
parsed_line parse_line(std::string_view line, int priorities);

}  // namespace fetch
