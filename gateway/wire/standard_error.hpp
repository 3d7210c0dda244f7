#pragma once

#include "canigo/time.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace canigo::gateway {

/// Writes as much to standard error as its reader takes within `patience`. The rest is lost: a reader that stands still
/// or has gone must neither stop calls nor end the program.
///
/// Threads: any.
void write_to_standard_error(std::string_view text, duration patience) noexcept;

/// Writes a line while the program serves. Does not wait.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    write_to_standard_error("canigo-gateway: " + fmt::format(format, std::forward<Args>(args)...) + '\n', duration{0});
  } catch (...) {
    // No memory: the line is lost.
  }
}

}  // namespace canigo::gateway
