#include "output_dir.hpp"

#include "text.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace fetch {

output_dir::output_dir(const std::string& path, bool may_replace) : path_{path}, may_replace_{may_replace} {
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail(errno, "");
  folder_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) fail(errno, "");
}

output_dir::~output_dir() { ::close(folder_); }

void output_dir::fail(int why, const std::string& name) const {
  throw output_error{why, std::system_category(), printable(name.empty() ? path_ : path_ + '/' + name)};
}

std::error_code output_dir::check(const std::string& name) const {
  struct stat status{};
  const bool exists = ::fstatat(folder_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  return exists && !may_replace_ ? std::make_error_code(std::errc::file_exists) : std::error_code{};
}

void output_dir::make_folders(const std::string& name) const {
  for (auto slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    if (::mkdirat(folder_, name.substr(0, slash).c_str(), 0777) != 0 && errno != EEXIST) fail(errno, name);
  }
}

output_dir::part::part(output_dir& folder, std::string name)
    : folder_{folder},
      name_{std::move(name)},
      unfinished_{fmt::format(".canigo-fetch.{}.{}.part", ::getpid(), ++folder.parts_)} {
  // Removes a file of this name that a killed process with the same process number may have left.
  ::unlinkat(folder_.folder_, unfinished_.c_str(), 0);
  file_ = ::openat(folder_.folder_, unfinished_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) folder_.fail(errno, name_);
}

output_dir::part::~part() {
  if (file_ >= 0) ::close(file_);
  if (is_there_) ::unlinkat(folder_.folder_, unfinished_.c_str(), 0);
}

void output_dir::part::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(file_, text.data(), text.size());
    if (n >= 0) text.remove_prefix(static_cast<std::size_t>(n));
    if (n < 0 && errno != EINTR) folder_.fail(errno, name_);
  }
}

std::error_code output_dir::part::keep() {
  if (::close(std::exchange(file_, -1)) != 0) folder_.fail(errno, name_);
  folder_.make_folders(name_);
  const int folder = folder_.folder_;
  const bool is_kept = folder_.may_replace_ ? ::renameat(folder, unfinished_.c_str(), folder, name_.c_str()) == 0
                                            : ::linkat(folder, unfinished_.c_str(), folder, name_.c_str(), 0) == 0;
  const int why = is_kept ? 0 : errno;
  if (is_kept && folder_.may_replace_) is_there_ = false;
  if (why != 0 && why != EEXIST) folder_.fail(why, name_);
  return {why, std::generic_category()};
}

}  // namespace fetch
