#pragma once

#include "canigo/detail/context/asio_settings.hpp"

#include <asio/detail/config.hpp>
#include <asio/version.hpp>

// The HTTP and Redis clients rely on this: closing a socket calls all handlers that wait on the socket.
#if defined(ASIO_HAS_IO_URING_AS_DEFAULT)
static_assert(ASIO_VERSION >= 102800,
              "Asio's io_uring back end before 1.28 forgets who waits on a socket that is "
              "closed: take Asio 1.28 or later, or epoll");
#endif
