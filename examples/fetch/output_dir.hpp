#pragma once

#include <string>
#include <string_view>
#include <system_error>

namespace fetch {

/// A folder that gets a file for each body. A file is there in whole or not at all.
class output_dir {
 public:
  /// Makes the folder if there is none; its parent must be there. Throws std::system_error, which names the path.
  output_dir(const std::string& path, bool may_replace);
  ~output_dir();
  output_dir(const output_dir&) = delete;
  output_dir& operator=(const output_dir&) = delete;

  /// std::errc::file_exists if there is something of that name which save() would not replace.
  std::error_code check(const std::string& name) const;
  /// Makes the folders between, too. Returns std::errc::file_exists as check() does; throws std::system_error, which
  /// names the file, for anything else: the next one could not be written either.
  std::error_code save(const std::string& name, std::string_view text);

 private:
  [[noreturn]] void fail(int why, const std::string& name) const;
  void make_folders(const std::string& name) const;
  void write(const std::string& name, std::string_view text) const;

  const std::string path_;
  const bool may_replace_;
  int folder_ = -1;
  const std::string unfinished_;  // the name of what is being written
};

}  // namespace fetch
