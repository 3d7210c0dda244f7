#include "socket_watch.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace canigo::http::detail {
namespace {

int local_port_of(int socket) noexcept {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
    sockaddr_storage room;
  } address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, &address.any, &size) != 0) return 0;
  if (address.any.sa_family == AF_INET) return ntohs(address.v4.sin_port);
  return address.any.sa_family == AF_INET6 ? ntohs(address.v6.sin6_port) : 0;
}

}  // namespace

socket_watch::socket_watch(const net::any_io_executor& executor, int socket, bool connection)
    : descriptor{executor}, fd{socket}, is_connection{connection}, local_port{local_port_of(socket)} {
  if (is_connection) {
    descriptor->assign(fd);
    return;
  }
  const int duplicate = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) throw std::system_error{errno, std::system_category(), "duplicating a socket"};
  try {
    descriptor->assign(duplicate);
  } catch (...) {
    ::close(duplicate);
    throw;
  }
}

void socket_watch::let_go() noexcept {
  // This calls release() instead of close(). After close() the reactor assumes that the kernel has removed the
  // descriptor from its epoll set. But the kernel keeps the descriptor in that set while a duplicate of it is open.
  const int watched = descriptor->release();
  if (!is_connection) ::close(watched);
  descriptor.reset();
  wanted = 0;
}

}  // namespace canigo::http::detail
