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

/// A socket of curl's, and what curl waits for on it.
///
/// When a socket never connected, curl 7.88 to 8.4 closes it without telling its user, and the number may belong to
/// another thread's socket a moment later. So the reactor gets a duplicate of a socket, until the socket is known to be
/// a connection. A connection itself goes to the reactor, and stays there between requests, which saves two system
/// calls for each request.
struct socket_watch : list_node<socket_watch, struct in_mail>,
                      list_node<socket_watch, struct in_limbo>,
                      list_node<socket_watch, struct at_port> {
  /// Room for one wait, so that starting it needs no allocation and can't fail.
  static constexpr std::size_t wait_size = 256;
  using wait_memory = canigo::detail::fixed_memory<wait_size>;

  /// Throws std::system_error, with nothing held.
  socket_watch(const net::any_io_executor& executor, int socket, bool connection);
  /// Leaves the reactor.
  void let_go() noexcept;

  std::optional<net::posix::stream_descriptor> descriptor;  // empty: the socket was let go of, and a wait is still out
  const int fd;
  const bool is_connection;             // it is closed by curl's closing callback, and by nothing else
  const int local_port;                 // 0: it has none
  bool is_http1 = false;                // its server sends nothing without a request
  const easy_handle* paused = nullptr;  // the handle that uses it for a transfer that can take nothing now
  bool is_idle() const noexcept { return is_http1 && wanted == 0 && paused == nullptr; }
  int wanted = 0;   // CURL_POLL_IN, CURL_POLL_OUT
  int waiting = 0;  // CURL_POLL_IN, CURL_POLL_OUT of the async_waits that are out
  wait_memory read_memory;
  wait_memory write_memory;

  // Written with the engine's lock held.
  int fired = 0;    // waits that have come back
  int aborted = 0;  // how many of those waits were cancelled
};

}  // namespace canigo::http::detail
