#pragma once

#include "canigo/time.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace canigo::gateway {

/// Writes to standard error what it takes within `patience`. The rest is lost: no message is worth a call, so a reader
/// that stands still or has gone neither stops nor ends the program.
///
/// Threads: any.
void write_to_standard_error(std::string_view text, duration patience) noexcept;

/// A line of the program while it serves. Does not wait.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    write_to_standard_error("canigo-gateway: " + fmt::format(format, std::forward<Args>(args)...) + '\n', duration{0});
  } catch (...) {
    // No memory for it.
  }
}

}  // namespace canigo::gateway
