#pragma once

#include <canigo/time.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace fetch {

/// One call: what was asked for, and what became of it.
struct call {
  std::size_t order = 0;  ///< of its line among the good ones, from 1
  int priority = 0;
  std::string url;
  int attempts = 0;
  canigo::time_point read;     ///< when its line was read
  canigo::time_point started;  ///< when its last attempt was let go
  std::error_code error;
  int status = 0;
  std::size_t bytes = 0;

  bool ok() const noexcept { return !error && status < 400; }
};

/// What a line says, or what is wrong with it.
struct parsed_line {
  std::optional<call> value;
  std::string problem;
};

/// Reads "PRIORITY URL". A line with neither value nor problem says nothing: it is empty or a comment.
parsed_line parse_line(std::string_view line, int priorities);

}  // namespace fetch
