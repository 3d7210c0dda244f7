#pragma once

#include "support/catch.hpp"

#include <filesystem>
#include <stdlib.h>
#include <string>

namespace http_test {

/// A folder that the destructor removes.
class temporary_folder {
 public:
  temporary_folder() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  ~temporary_folder() { std::filesystem::remove_all(path_); }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "canigo-XXXXXX").string();
};

}  // namespace http_test
