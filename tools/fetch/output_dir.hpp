#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

namespace fetch {

/// Thrown if the output folder or one of its files can't be written. Further files could not be written either.
struct output_error : std::system_error {
  using std::system_error::system_error;
};

/// The folder in which the bodies of responses are stored, one file each. A file is either complete or does not exist.
class output_dir {
 public:
  class part;

  /// Creates the folder if it does not exist; its parent must exist. Throws output_error, which names the path.
  output_dir(const std::string& path, bool may_replace);
  ~output_dir();
  output_dir(const output_dir&) = delete;
  output_dir& operator=(const output_dir&) = delete;

  /// Returns std::errc::file_exists if part::keep() would fail because a file or a folder with this name exists;
  /// otherwise returns no error.
  std::error_code check(const std::string& name) const;

 private:
  [[noreturn]] void fail(int why, const std::string& name) const;
  void make_folders(const std::string& name) const;

  const std::string path_;
  const bool may_replace_;
  int folder_ = -1;
  std::size_t parts_ = 0;  // how many parts were made so far
};

/// A file that is being written. The destructor removes the file, unless keep() was called. `folder` must outlive this
/// object.
///
/// The member functions throw output_error, which names the file.
class output_dir::part {
 public:
  part(output_dir& folder, std::string name);
  ~part();
  part(const part&) = delete;
  part& operator=(const part&) = delete;

  void write(std::string_view text);
  /// Gives the finished file its name, and creates the missing folders in that name. Returns std::errc::file_exists if
  /// a file or a folder with this name exists and may not be replaced.
  std::error_code keep();

 private:
  const output_dir& folder_;
  const std::string name_;
  const std::string unfinished_;  // the name that the file has until keep()
  int file_ = -1;
  bool is_there_ = true;
};

}  // namespace fetch
