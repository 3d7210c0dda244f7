#include "output_dir.hpp"

#include "text.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fetch {

output_dir::output_dir(const std::string& path, bool may_replace)
    : path_{path}, may_replace_{may_replace}, unfinished_{fmt::format(".canigo-fetch.{}.part", ::getpid())} {
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail(errno, "");
  folder_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) fail(errno, "");
}

output_dir::~output_dir() { ::close(folder_); }

void output_dir::fail(int why, const std::string& name) const {
  throw std::system_error{why, std::system_category(), printable(name.empty() ? path_ : path_ + '/' + name)};
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

void output_dir::write(const std::string& name, std::string_view text) const {
  ::unlinkat(folder_, unfinished_.c_str(), 0);
  const int file = ::openat(folder_, unfinished_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) fail(errno, name);
  int why = 0;
  while (!text.empty() && why == 0) {
    const ssize_t n = ::write(file, text.data(), text.size());
    if (n >= 0) text.remove_prefix(static_cast<std::size_t>(n));
    if (n < 0 && errno != EINTR) why = errno;
  }
  if (::close(file) != 0 && why == 0) why = errno;
  if (why == 0) return;
  ::unlinkat(folder_, unfinished_.c_str(), 0);
  fail(why, name);
}

std::error_code output_dir::save(const std::string& name, std::string_view text) {
  make_folders(name);
  write(name, text);
  const bool is_done = may_replace_ ? ::renameat(folder_, unfinished_.c_str(), folder_, name.c_str()) == 0
                                    : ::linkat(folder_, unfinished_.c_str(), folder_, name.c_str(), 0) == 0;
  const int why = is_done ? 0 : errno;
  if (!is_done || !may_replace_) ::unlinkat(folder_, unfinished_.c_str(), 0);
  if (why != 0 && why != EEXIST) fail(why, name);
  return {why, std::generic_category()};
}

}  // namespace fetch
