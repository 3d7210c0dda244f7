#pragma once

#include "canigo/net.hpp"

#include "gateway/config/config.hpp"
#include "gateway/process/descriptors.hpp"
#include "gateway/process/listening_socket.hpp"
#include "gateway/process/rare_message.hpp"
#include "gateway/process/service.hpp"

#include <asio/basic_socket_acceptor.hpp>
#include <asio/generic/stream_protocol.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace canigo::gateway {

/// The listening sockets of the gateway and of its admin. All event loops accept connections from them.
class listeners {
 public:
  /// `s` and `failures` must outlive this object.
  listeners(service& s, failure_report& failures);
  listeners(const listeners&) = delete;
  listeners& operator=(const listeners&) = delete;

  /// Opens the listening sockets that `c` names. Throws start_failure if that fails. `files`: how many files the
  /// process may open.
  void open(const config& c, rlim_t files);
  /// Returns the addresses of the sockets, in the order of the configuration. The admin's address is the last one.
  std::vector<std::string> addresses() const;
  /// Begins to accept connections on all event loops. Call it once, before the loops run.
  void accept();
  /// Closes the listening sockets. The admin's socket stays open if the admin has to show the progress of a drain.
  /// Clients that have already connected are still served; later connections are refused. Call it on the thread of the
  /// first loop.
  void close();
  /// Closes all listening sockets, the admin's socket included. First call close(), and wait until are_closed() is
  /// true. Then call close_all() on the thread of the first loop.
  void close_all();
  /// Whether the sockets that close() has to close are closed; after close_all(), whether all sockets are closed.
  bool are_closed() const noexcept;

 private:
  using acceptor = net::basic_socket_acceptor<net::generic::stream_protocol>;
  /// A listening socket, on which all event loops accept connections.
  struct door {
    std::optional<std::uint32_t> listener;  // the index of the listener; none: the admin's listener
    listening_socket socket;
    bool closes_early = true;  // true: the socket closes at the beginning of a drain
  };

  void accept(loop& l, door& d, std::shared_ptr<acceptor> at);
  void accept_later(loop& l, door& d, std::shared_ptr<acceptor> at);
  bool is_short_of_files() const noexcept;
  void take(loop& l, door& d, stream_socket socket);
  void take_last();
  static bool push_out_idle(loop& l);
  void tell_of_refusal(const std::string& bound, const std::string& address);

  service& service_;
  failure_report& failures_;
  rare_message refusals_;
  const std::vector<std::unique_ptr<loop>>& loops_;
  std::vector<door> doors_;
  // For each event loop: its acceptors, in the order of `doors_`.
  std::vector<std::vector<std::shared_ptr<acceptor>>> acceptors_;
  descriptor_shares shares_;
  std::atomic<std::size_t> open_loops_{0};  // the number of loops that still accept connections after close()
};

}  // namespace canigo::gateway
