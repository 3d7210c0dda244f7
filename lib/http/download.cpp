#include "canigo/http/download.hpp"

#include "canigo/error.hpp"
#include "canigo/http/exchange.hpp"

#include <asio/buffer.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <random>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace canigo::http {
namespace {

[[noreturn]] void throw_of(int error, const std::filesystem::path& file) {
  throw std::system_error{error, std::system_category(), file.string()};
}

/// A temporary file in the same folder as the path `to`. After a complete download it replaces the file at `to`; after
/// a failure it is removed.
class new_file {
 public:
  explicit new_file(std::filesystem::path to) : to_{std::move(to)} {
    std::random_device random;
    constexpr int attempts = 100;
    for (int i = 0; fd_ < 0; ++i) {
      name_ = to_;
      name_ += ".part-" + std::to_string(random());
      constexpr mode_t all = 0666;
      fd_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, all);
      if (fd_ < 0 && (errno != EEXIST || i == attempts)) throw_of(errno, name_);
    }
  }
  ~new_file() {
    if (fd_ >= 0) ::close(fd_);
    if (!is_in_place_) ::unlink(name_.c_str());
  }
  new_file(const new_file&) = delete;
  new_file& operator=(const new_file&) = delete;

  void write(const char* data, std::size_t size) {
    while (size != 0) {
      const auto n = ::write(fd_, data, size);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw_of(errno, to_);
      data += n;
      size -= static_cast<std::size_t>(n);
    }
  }

  void take_place() {
    // The result of close() is checked, because some file systems report a full disk only there.
    if (::close(std::exchange(fd_, -1)) != 0) throw_of(errno, to_);
    if (::rename(name_.c_str(), to_.c_str()) != 0) throw_of(errno, to_);
    is_in_place_ = true;
  }

 private:
  std::filesystem::path to_;
  std::filesystem::path name_;
  int fd_ = -1;
  bool is_in_place_ = false;
};

/// Copies the body to the file, and returns the size of the body. curl pauses the transfer when a part of the body
/// fills the buffer. So a fast body gets a larger buffer.
net::awaitable<std::uint64_t> copy(exchange& from, new_file& to) {
  constexpr std::size_t first_room = 64 << 10;
  constexpr std::size_t most_room = 256 << 10;
  std::vector<char> room(first_room);
  std::uint64_t size = 0;
  try {
    while (const std::size_t n = co_await from.read_some(net::buffer(room))) {
      to.write(room.data(), n);
      size += n;
      if (n == room.size() && n < most_room) room.resize(2 * n);
    }
  } catch (const std::system_error& e) {
    if (e.code().category() == std::system_category() || from.problem().empty()) throw;
    throw canigo::detail::error_at{e.code(), from.problem()};
  }
  co_return size;
}

}  // namespace

net::awaitable<response> download(client& c, request r, std::filesystem::path to) {
  // A file must not replace a device or a pipe, because that would break other users of the device or pipe.
  std::error_code unknown;
  if (const auto now = status(to, unknown); exists(now) && !is_regular_file(now)) {
    canigo::detail::throw_invalid("download.to", to.string(), "a regular file, or a name that is free");
  }
  exchange x = co_await c.open(std::move(r));
  response result = x.head();
  if (result.status < 200 || result.status > 299) co_return result;
  new_file file{std::move(to)};
  result.body_size = co_await copy(x, file);
  file.take_place();
  co_return result;
}

}  // namespace canigo::http
