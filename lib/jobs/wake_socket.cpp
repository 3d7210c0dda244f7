#include "wake_socket.hpp"

#include "number_text.hpp"

#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace canigo::jobs::detail {
namespace {

constexpr char hello = 'h';
constexpr char news = 'n';
constexpr char probe = 'p';

/// Stores the path in the address of a unix socket. Returns false if the path is too long for it.
bool to_address(const std::string& path, sockaddr_un& address) noexcept {
  if (path.size() >= sizeof address.sun_path) return false;
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return true;
}

}  // namespace

std::string wake_socket::path_of(std::int64_t number) const { return folder_ + '/' + std::to_string(number); }

wake_socket::wake_socket(std::string folder, std::int64_t number) : folder_{std::move(folder)}, number_{number} {
  sockaddr_un address{};
  if (!to_address(path_of(number), address)) return;
  ::mkdir(folder_.c_str(), 0777);
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  if (socket_ == -1) return;
  ::fcntl(socket_, F_SETFD, FD_CLOEXEC);
  ::fcntl(socket_, F_SETFL, O_NONBLOCK);
  if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(std::exchange(socket_, -1));
  }
  look_round();
  for (const auto other : others_) tell(other, hello);
}

wake_socket::~wake_socket() {
  if (socket_ == -1) return;
  ::unlink(path_of(number_).c_str());
  ::close(socket_);
  ::rmdir(folder_.c_str());  // this fails if another process's socket is in the folder, and then the folder stays
}

bool wake_socket::drain() noexcept {
  bool has_newcomer = false;
  bool has_news = false;
  char what = 0;
  while (::recv(socket_, &what, 1, 0) == 1) {
    has_newcomer = has_newcomer || what == hello;
    has_news = has_news || what == news;
  }
  try {
    if (has_newcomer) look_round();
  } catch (...) {
    return has_news;  // no memory to search the folder now; a later search finds the process that sent `hello`
  }
  return has_news;
}

void wake_socket::look_round() {
  if (socket_ == -1) return;
  const std::unique_ptr<DIR, decltype([](DIR* d) { ::closedir(d); })> folder{::opendir(folder_.c_str())};
  if (folder == nullptr) return;
  std::set<std::int64_t> found;
  while (const dirent* entry = ::readdir(folder.get())) {
    std::int64_t number = 0;
    if (is_number(entry->d_name, number) && number != number_) found.insert(number);
  }
  others_ = std::move(found);
}

int wake_socket::tell(std::int64_t number, char what) const noexcept {
  sockaddr_un address{};
  if (!to_address(path_of(number), address)) return ENOENT;
  const auto sent =
      ::sendto(socket_, &what, 1, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return sent == 1 ? 0 : errno;
}

std::vector<std::int64_t> wake_socket::ring(bool has_news) {
  std::vector<std::int64_t> gone;
  for (const auto other : others_) {
    // If no process has this socket open, the datagram is refused, and the socket's file is removed. If the buffer of
    // the socket is full, the other process already has unread wake-ups.
    if (tell(other, has_news ? news : probe) != ECONNREFUSED) continue;
    ::unlink(path_of(other).c_str());
    gone.push_back(other);
  }
  return gone;
}

}  // namespace canigo::jobs::detail
