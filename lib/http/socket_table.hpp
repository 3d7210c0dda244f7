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

/// Receives the events of sockets. Each running wait for an event keeps its listener alive.
class socket_listener {
 public:
  /// Called on any thread when a wait for `what`, CURL_POLL_IN or CURL_POLL_OUT, has completed.
  virtual void socket_fired(socket_watch& w, int what, std::error_code ec) noexcept = 0;
  virtual std::shared_ptr<socket_listener> share() noexcept = 0;

 protected:
  ~socket_listener() = default;
};

/// The sockets that curl waits on, by descriptor. Threads: one at a time.
class socket_table {
 public:
  socket_table(const net::any_io_executor& executor, socket_listener& listener)
      : executor_{executor}, listener_{&listener} {}
  ~socket_table();
  socket_table(const socket_table&) = delete;
  socket_table& operator=(const socket_table&) = delete;

  socket_watch* find(int fd) const noexcept;
  /// Watches a socket. If an earlier socket with this descriptor was watched, stops watching that socket. After an
  /// error, no socket with this descriptor is watched.
  std::error_code watch(int fd, bool is_connection) noexcept;
  /// Call it when a new socket has this descriptor. If an older socket with this descriptor was watched, watches the
  /// new socket instead, for the same events.
  void reopened(int fd) noexcept;
  /// Starts a wait for each event that curl wants on `w`, unless a wait for that event is running already.
  void wait(socket_watch& w) noexcept;
  /// Cancels the running waits of `w`. Each cancelled wait still calls the listener.
  static void stop_waiting(socket_watch& w) noexcept;
  /// Stops watching a socket, which stays open. Its watch is destroyed when its last wait has ended.
  void unwatch(int fd) noexcept;
  void unwatch_all() noexcept;
  /// Shuts down each idle HTTP/1 connection with this local port that has bytes to read, or that the server has closed.
  /// `has_more`: bytes were already read from the socket, so each idle connection with this port is shut down. Returns
  /// whether a connection was shut down.
  bool spoil_if_unclean(int local_port, bool has_more) noexcept;
  /// Shuts down all idle HTTP/1 connections. Returns whether one of them had this local port.
  bool spoil_idle(int local_port) noexcept;
  /// Returns the watch of the socket with this local port on which the transfer of `h` is paused; null if there is
  /// none.
  socket_watch* paused_by(const easy_handle& h, int local_port) const noexcept;
  /// Returns an idle HTTP/1 connection with this local port; null if there is none.
  socket_watch* idle_at(int local_port) const noexcept;
  /// Whether curl waits for an event on a connection with this local port.
  bool is_in_use(int local_port) const noexcept;
  /// Notes that the waits of `w` for the events `fired` have completed. If `w` is no longer watched and these were its
  /// last waits, destroys `w` and returns false.
  bool heard(socket_watch& w, int fired) noexcept;
  /// Call it when the execution context is destroyed. Running waits then end without calling the listener.
  void shutdown() noexcept;

 private:
  using port_list = linked_list<socket_watch, at_port>;
  port_list& ports_like(int port) noexcept { return by_port_[static_cast<std::size_t>(port) % by_port_.size()]; }
  const port_list& ports_like(int port) const noexcept {
    return by_port_[static_cast<std::size_t>(port) % by_port_.size()];
  }

  net::any_io_executor executor_;
  socket_listener* listener_;
  std::vector<std::unique_ptr<socket_watch>>
      watches_;                         // the watch of each socket; the index is the socket's descriptor
  std::array<port_list, 256> by_port_;  // the watches by local port; the index is the port modulo 256
  linked_list<socket_watch, in_limbo> let_go_of_;
};

}  // namespace canigo::http::detail
