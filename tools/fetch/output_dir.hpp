#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

namespace fetch {

/// The folder, or a file in it, can't be written. The next file could not be either.
struct output_error : std::system_error {
  using std::system_error::system_error;
};

/// A folder that gets a file for each body. A file is there in whole or not at all.
class output_dir {
 public:
  class part;

  /// Makes the folder if there is none; its parent must be there. Throws output_error, which names the path.
  output_dir(const std::string& path, bool may_replace);
  ~output_dir();
  output_dir(const output_dir&) = delete;
  output_dir& operator=(const output_dir&) = delete;

  /// std::errc::file_exists if there is something of that name which part::keep() would not replace.
  std::error_code check(const std::string& name) const;

 private:
  [[noreturn]] void fail(int why, const std::string& name) const;
  void make_folders(const std::string& name) const;

  const std::string path_;
  const bool may_replace_;
  int folder_ = -1;
  std::size_t parts_ = 0;  // so far
};

/// A file that is being written. It is gone in the end unless keep() gave it its name. The folder must stay.
///
/// Its members throw output_error, which names the file.
class output_dir::part {
 public:
  part(output_dir& folder, std::string name);
  ~part();
  part(const part&) = delete;
  part& operator=(const part&) = delete;

  void write(std::string_view text);
  /// Makes the folders between, too. Returns std::errc::file_exists as check() does.
  std::error_code keep();

 private:
  const output_dir& folder_;
  const std::string name_;
  const std::string unfinished_;  // its name until then
  int file_ = -1;
  bool is_there_ = true;
};

}  // namespace fetch
