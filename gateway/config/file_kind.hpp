#pragma once

#include <string>
#include <sys/stat.h>

namespace canigo::gateway {

inline bool is_directory(const std::string& path) noexcept {
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

inline bool is_regular_file(const std::string& path) noexcept {
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
}

/// Whether the file is a pipe, a socket or a device. Opening such a file may block the program for ever.
inline bool is_special_file(const std::string& path) noexcept {
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode);
}

}  // namespace canigo::gateway
