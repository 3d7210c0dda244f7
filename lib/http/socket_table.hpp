#pragma once

#include "canigo/http/detail/linked_list.hpp"
#include "canigo/net.hpp"

#include "socket_watch.hpp"

#include <asio/any_io_executor.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <system_error>
#include <vector>

namespace canigo::http::detail {

/// Is told of sockets that are ready. The waits that are under way keep it alive.
class socket_listener {
 public:
  /// From any thread: a wait for `what`, CURL_POLL_IN or CURL_POLL_OUT, has come back.
  virtual void socket_fired(socket_watch& w, int what, std::error_code ec) noexcept = 0;
  virtual std::shared_ptr<socket_listener> share() noexcept = 0;

 protected:
  ~socket_listener() = default;
};

/// The sockets that curl waits on, by number. Used by one thread at a time.
class socket_table {
 public:
  socket_table(const net::any_io_executor& executor, socket_listener& listener)
      : executor_{executor}, listener_{&listener} {}
  ~socket_table();
  socket_table(const socket_table&) = delete;
  socket_table& operator=(const socket_table&) = delete;

  socket_watch* find(int fd) const noexcept;
  /// Watches a socket, and lets go of an earlier one with this number.
  std::error_code watch(int fd, bool is_connection) noexcept;
  /// Call it when a new socket has this number. If an older socket with this number was watched, the new one is watched
  /// in its place.
  void reopened(int fd) noexcept;
  /// Begins the waits that curl wants on `w` and that are not under way.
  void wait(socket_watch& w) noexcept;
  /// Cancels the waits of `w`. Each of them still calls the listener.
  static void stop_waiting(socket_watch& w) noexcept;
  /// Lets go of a socket, which stays open. Its watch goes when its last wait has called the listener.
  void unwatch(int fd) noexcept;
  void unwatch_all() noexcept;
  /// Shuts down the idle connections of HTTP/1 from this port that have bytes to read, or have ended. `has_more`: there
  /// are bytes that were read from the socket already. Returns whether there were any such connections.
  bool spoil_if_unclean(int local_port, bool has_more) noexcept;
  /// Shuts down all idle connections of HTTP/1. Returns whether one of them was from this port.
  bool spoil_idle(int local_port) noexcept;
  /// The socket that is marked as paused by `h`, whose connection is from this port; null: none.
  socket_watch* paused_by(const easy_handle& h, int local_port) const noexcept;
  /// An idle connection from this port; null: none.
  socket_watch* idle_at(int local_port) const noexcept;
  /// Whether curl waits for anything on a connection from this port.
  bool is_in_use(int local_port) const noexcept;
  /// Notes that waits have come back. Returns false if the table had let go of `w` and this was its last wait: then `w`
  /// is gone.
  bool heard(socket_watch& w, int fired) noexcept;
  /// Call it when the execution context goes: no wait that is out calls the listener any more.
  void shutdown() noexcept;

 private:
  using port_list = linked_list<socket_watch, at_port>;
  port_list& ports_like(int port) noexcept { return by_port_[static_cast<std::size_t>(port) % by_port_.size()]; }
  const port_list& ports_like(int port) const noexcept {
    return by_port_[static_cast<std::size_t>(port) % by_port_.size()];
  }

  net::any_io_executor executor_;
  socket_listener* listener_;
  std::vector<std::unique_ptr<socket_watch>> watches_;  // by number
  std::array<port_list, 256> by_port_;                  // each list has the ports with the same remainder
  linked_list<socket_watch, in_limbo> let_go_of_;
};

}  // namespace canigo::http::detail
