#pragma once

#include "canigo/detail/context/asio_sockets.hpp"
#include "canigo/detail/context/post.hpp"
#include "canigo/http/detail/linked_list.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <cstddef>
#include <optional>

namespace canigo::http::detail {

class easy_handle;

/// One of curl's sockets, and the events that curl waits for on it.
///
/// curl 7.88 to 8.4 closes a socket that never connected, and does not report this to curl's user. A moment later the
/// descriptor may belong to another thread's socket. So the reactor gets a duplicate of the socket, until the socket is
/// known to be connected. For a connected socket, the reactor gets the socket itself, and keeps it between requests.
/// This saves two system calls per request.
struct socket_watch : list_node<socket_watch, struct in_mail>,
                      list_node<socket_watch, struct in_limbo>,
                      list_node<socket_watch, struct at_port> {
  /// The size of the memory for one wait, so that starting a wait needs no allocation and can't fail.
  static constexpr std::size_t wait_size = 256;
  using wait_memory = canigo::detail::fixed_memory<wait_size>;

  /// Gives `socket` to the reactor if `connection` is true, otherwise a duplicate of `socket`. If the constructor
  /// throws std::system_error, the reactor has no socket.
  socket_watch(const net::any_io_executor& executor, int socket, bool connection);
  /// Removes the socket from the reactor, and cancels its waits.
  void let_go() noexcept;

  // The socket in the reactor. Empty after let_go() has released the socket; this object then lives on until its waits
  // have completed.
  std::optional<net::posix::stream_descriptor> descriptor;
  const int fd;
  const bool is_connection;  // whether the socket is a connection; only curl's closing callback closes a connection
  const int local_port;      // the local port of the socket; 0: the socket has no port
  bool is_http1 = false;     // whether this is an HTTP/1 connection, whose server sends nothing without a request
  const easy_handle* paused = nullptr;  // the handle whose transfer is paused on this connection; null: none
  bool is_idle() const noexcept { return is_http1 && wanted == 0 && paused == nullptr; }
  int wanted = 0;   // the events that curl wants: CURL_POLL_IN, CURL_POLL_OUT
  int waiting = 0;  // the events for which a wait is running: CURL_POLL_IN, CURL_POLL_OUT
  wait_memory read_memory;
  wait_memory write_memory;

  // The engine's lock is held while the following members are written.
  int fired = 0;    // the events whose waits have completed
  int aborted = 0;  // the events among `fired` whose waits were cancelled
};

}  // namespace canigo::http::detail
