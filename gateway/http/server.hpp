#pragma once

#include "gateway/config/config.hpp"
#include "gateway/http/service.hpp"

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace canigo::gateway {

/// The running gateway: its loops, its listening sockets, and its end.
class server {
 public:
  /// Listens. Throws system_error, whose text says on which address it can't, or which file is wrong.
  explicit server(config c);
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Where it listens, one address a line, in the order of the configuration; the admin's is the last.
  std::vector<std::string> addresses() const;

  /// Serves until SIGTERM or SIGINT, and then until all who wait and run are done, or their grace is over. A second
  /// signal ends it now. Returns whether everybody was served.
  bool run();

 private:
  using acceptor = net::basic_socket_acceptor<net::generic::stream_protocol>;
  /// A listening socket, shared by the loops.
  struct door {
    std::optional<std::size_t> listener;  // none: the admin's
    int descriptor = -1;
    std::string name;
    std::string path;  // of a unix socket that is removed at the end
  };

  void open(const listen_address& a, bool reuses_port, std::optional<std::size_t> listener);
  void accept(loop& l, door& d, std::shared_ptr<acceptor> at);
  void take(loop& l, door& d, stream_socket socket);
  void wait_for_signal();
  void drain();
  void finish();
  void look_for_end();

  std::vector<std::unique_ptr<loop>> loops_;
  service service_;
  std::vector<std::unique_ptr<door>> doors_;
  std::vector<std::vector<std::shared_ptr<acceptor>>> acceptors_;  // by loop
  net::signal_set signals_;
  net::steady_timer grace_;
  net::steady_timer look_;
};

}  // namespace canigo::gateway
