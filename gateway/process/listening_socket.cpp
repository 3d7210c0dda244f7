#include "gateway/process/listening_socket.hpp"

#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include <arpa/inet.h>
#include <asio/ip/tcp.hpp>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace canigo::gateway {
namespace {

struct socket_address {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
  template <class Address>
  const Address& as() const noexcept {
    return reinterpret_cast<const Address&>(storage);
  }
};

[[noreturn]] void fail(const std::string& what) { throw system_error{errno, std::system_category(), what}; }

socket_address address_of(const listen_address& a) {
  socket_address s;
  if (a.is_unix()) {
    auto& un = reinterpret_cast<sockaddr_un&>(s.storage);
    un.sun_family = AF_UNIX;
    if (a.path.size() >= sizeof un.sun_path) {
      errno = ENAMETOOLONG;
      fail(a.path);
    }
    std::memcpy(un.sun_path, a.path.data(), a.path.size());
    s.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + a.path.size() + 1);
    return s;
  }
  const net::ip::tcp::endpoint e{net::ip::make_address(a.host), a.port};
  std::memcpy(&s.storage, e.data(), e.size());
  s.size = static_cast<socklen_t>(e.size());
  return s;
}

std::string host_of(const socket_address& s) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (s.storage.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &s.as<sockaddr_in>().sin_addr, text.data(), text.size());
  } else if (s.storage.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &s.as<sockaddr_in6>().sin6_addr, text.data(), text.size());
  }
  return text.data();
}

socket_address own_address(int socket) {
  socket_address s;
  if (::getsockname(socket, s.get(), &s.size) != 0) fail("getsockname");
  return s;
}

std::string name_of(const socket_address& s) {
  switch (s.storage.ss_family) {
    case AF_INET:
      return fmt::format("{}:{}", host_of(s), ntohs(s.as<sockaddr_in>().sin_port));
    case AF_INET6:
      return fmt::format("[{}]:{}", host_of(s), ntohs(s.as<sockaddr_in6>().sin6_port));
    case AF_UNIX: {
      constexpr std::size_t start = offsetof(sockaddr_un, sun_path);
      const char* path = s.as<sockaddr_un>().sun_path;
      return s.size > start ? fmt::format("unix:{}", std::string{path, ::strnlen(path, s.size - start)}) : "unix:";
    }
    default:
      return "of another family";
  }
}

/// Whether `have`, the address of a socket, is the wanted address `a`. If `a` has port 0, every port of `have` matches.
bool is_at(const std::string& have, const listen_address& a) {
  const std::string wanted = name_of(address_of(a));
  if (a.is_unix() || a.port != 0) return have == wanted;
  return have.substr(0, have.rfind(':')) == wanted.substr(0, wanted.rfind(':'));
}

int option(int socket, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

/// Sets options of a listening socket that accepted sockets inherit. With keep-alive probes, the kernel notices if the
/// machine of a client has vanished.
void set_up_tcp(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // `first`: seconds before the first probe; `next`: seconds between probes; `most`: the number of probes.
  const int first = 30, next = 10, most = 3;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &first, sizeof first);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &next, sizeof next);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &most, sizeof most);
}

/// Returns the identity of the unix socket at this path; nothing if there is no file, or a file of another kind.
std::optional<listening_socket::file> file_at(const std::string& path) {
  struct stat s{};
  if (::lstat(path.c_str(), &s) != 0 || !S_ISSOCK(s.st_mode)) return std::nullopt;
  return listening_socket::file{s.st_dev, s.st_ino};
}

/// Whether the file of a unix socket is left over: no process listens on it any more.
bool is_left_over(socket_address& s) {
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const bool is_refused = ::connect(probe, s.get(), s.size) != 0 && errno == ECONNREFUSED;
  ::close(probe);
  return is_refused;
}

}  // namespace

listening_socket listening_socket::open(const listen_address& a, bool reuses_port) {
  socket_address s = address_of(a);
  const std::string where = a.is_unix() ? a.path : fmt::format("{} port {}", a.host, a.port);
  listening_socket l;
  l.family_ = s.storage.ss_family;
  l.descriptor_ = ::socket(l.family_, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (l.descriptor_ < 0) fail(where);
  const int on = 1;
  if (a.is_unix()) {
    if (file_at(a.path) && is_left_over(s)) ::unlink(a.path.c_str());
  } else {
    ::setsockopt(l.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    set_up_tcp(l.descriptor_);
    if (reuses_port) ::setsockopt(l.descriptor_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  }
  if (::bind(l.descriptor_, s.get(), s.size) != 0) fail(where);
  if (a.is_unix()) {
    l.path_ = a.path;
    l.file_ = file_at(a.path);
  }
  if (::listen(l.descriptor_, SOMAXCONN) != 0) fail(where);
  l.name_ = name_of(own_address(l.descriptor_));
  return l;
}

listening_socket listening_socket::take(const std::vector<passed_socket>& passed, const std::string& name,
                                        const listen_address& a) {
  const auto refusal = [&](const std::string& why) {
    return std::runtime_error{fmt::format("the socket \"{}\" of systemd {}", name, why)};
  };
  std::string others;
  for (const passed_socket& p : passed) {
    if (p.name != name) continue;
    const socket_address s = own_address(p.descriptor);
    const std::string have = name_of(s);
    if (!is_at(have, a)) {
      others += (others.empty() ? "" : ", ") + have;
      continue;
    }
    if (option(p.descriptor, SO_TYPE) != SOCK_STREAM || option(p.descriptor, SO_ACCEPTCONN) != 1)
      throw refusal("does not listen for streams");
    ::fcntl(p.descriptor, F_SETFD, FD_CLOEXEC);
    ::fcntl(p.descriptor, F_SETFL, ::fcntl(p.descriptor, F_GETFL) | O_NONBLOCK);
    listening_socket l;
    l.descriptor_ = p.descriptor;
    l.family_ = s.storage.ss_family;
    l.name_ = have;
    if (l.family_ != AF_UNIX) set_up_tcp(l.descriptor_);
    return l;
  }
  if (others.empty()) throw refusal("was not handed over");
  throw refusal(fmt::format("is at {}, and the listener's address is {}", others, name_of(address_of(a))));
}

listening_socket::listening_socket(listening_socket&& other) noexcept
    : descriptor_{std::exchange(other.descriptor_, -1)},
      family_{other.family_},
      name_{std::move(other.name_)},
      path_{std::exchange(other.path_, {})},
      file_{other.file_} {}

listening_socket::~listening_socket() { close(); }

void listening_socket::let_everybody_in() {
  constexpr mode_t for_everybody = 0666;
  if (!path_.empty() && ::chmod(path_.c_str(), for_everybody) != 0) fail(path_);
}

void listening_socket::close() noexcept {
  if (descriptor_ < 0) return;
  // Removes the file only if it is still the file of this socket. The comparison is reliable, because the file's number
  // can't be reused while the socket is open.
  if (file_ && file_at(path_) == file_) ::unlink(path_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

std::string peer_of(int socket) {
  socket_address s;
  return ::getpeername(socket, s.get(), &s.size) == 0 ? host_of(s) : std::string{};
}

}  // namespace canigo::gateway
