#pragma once

#include <string>
#include <sys/stat.h>

namespace canigo::gateway {

// Not by std::filesystem, whose error codes are no others than the standard library's: see scripts/on-boost.

inline bool is_directory(const std::string& path) noexcept {
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

inline bool is_regular_file(const std::string& path) noexcept {
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
}

}  // namespace canigo::gateway
