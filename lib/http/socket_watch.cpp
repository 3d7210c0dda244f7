#include "socket_watch.hpp"

#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

namespace canigo::http::detail {

socket_watch::socket_watch(const net::any_io_executor& executor, int socket, bool connection)
    : descriptor{executor}, fd{socket}, is_connection{connection} {
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
  // Not close(): the reactor takes that as having left the kernel's set, which a duplicate has not.
  const int watched = descriptor->release();
  if (!is_connection) ::close(watched);
  descriptor.reset();
  wanted = 0;
}

}  // namespace canigo::http::detail
