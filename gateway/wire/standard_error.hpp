#pragma once

#include "canigo/time.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace canigo::gateway {

/// Writes the text to standard error, for at most `patience`. If the reader of standard error accepts only a part of
/// the text in this time, the rest is lost. So a reader that stops reading does not block calls, and a reader that has
/// ended does not end the program.
///
/// Threads: any.
void write_to_standard_error(std::string_view text, duration patience) noexcept;

/// Writes a line to standard error without a wait. Use it while the program serves requests.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    write_to_standard_error("canigo-gateway: " + fmt::format(format, std::forward<Args>(args)...) + '\n', duration{0});
  } catch (...) {
    // If there is no memory for the text, the line is lost.
  }
}

}  // namespace canigo::gateway
