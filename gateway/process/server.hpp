#pragma once

#include "canigo/semaphore.hpp"

#include "gateway/config/config.hpp"
#include "gateway/config/report.hpp"
#include "gateway/process/admin_handler.hpp"
#include "gateway/process/listening_socket.hpp"
#include "gateway/process/service.hpp"
#include "gateway/process/supervisor.hpp"

#include <asio/awaitable.hpp>
#include <asio/basic_socket_acceptor.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace canigo::gateway {

/// The running gateway: its event loops, its listening sockets, and its shutdown.
class server {
 public:
  /// Opens the listening sockets. Throws start_failure if that fails, and config_mistake if a file that the
  /// configuration names is missing or invalid. Throws std::runtime_error if the process may open too few files.
  ///
  /// `file`: the file from which `c` was read. SIGHUP reads the file again. `by`: answers requests to the admin's
  /// listener; it must outlive the server.
  server(config c, std::string file, admin_handler& by);
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Returns the addresses at which the server listens, in the order of the configuration. The admin's address is the
  /// last one.
  std::vector<std::string> addresses() const;

  /// Serves until SIGTERM or SIGINT. Then waits until all requests have ended or the time of the drain is over. A
  /// second signal ends the requests immediately. SIGHUP reloads the configuration. Returns true if all requests were
  /// served.
  bool run();

 private:
  using acceptor = net::basic_socket_acceptor<net::generic::stream_protocol>;
  /// A listening socket, on which all event loops accept connections.
  struct door {
    std::optional<std::uint32_t> listener;  // the index of the listener; none: the admin's listener
    listening_socket socket;
    bool closes_early = true;  // true: the socket closes at the beginning of a drain
  };

  void open_doors(const config& c);
  void accept(loop& l, door& d, std::shared_ptr<acceptor> at);
  void accept_later(loop& l, door& d, std::shared_ptr<acceptor> at);
  bool is_short_of_files() const noexcept;
  void divide_files();
  void take(loop& l, door& d, stream_socket socket);
  void wait_for_signal();
  void watch();
  net::awaitable<std::vector<std::string>> reload();
  void drain();
  void begin_no_more(duration rest);
  static bool push_out_idle(loop& l);
  void run(net::io_context& io);
  void run_loops();
  static bool is_due(std::atomic<std::int64_t>& told) noexcept;
  void tell_of_failure(const std::exception& e) noexcept;
  void tell_of_refusal(const std::string& bound, const std::string& address);
  void close_doors();
  void take_last();
  void finish();
  void end_admin();
  void look_for_end();
  void on_connections(const std::function<void(connection&)>& f);

  // when the last message of this kind was written, in seconds of the steady clock
  std::atomic<std::int64_t> refusal_told_{0};
  std::atomic<std::int64_t> failure_told_{0};

  rlim_t files_;  // how many files this process may have open
  supervisor supervisor_;
  std::vector<std::unique_ptr<loop>> loops_;
  service service_;
  std::vector<door> doors_;
  // For each event loop: its acceptors, in the order of `doors_`.
  std::vector<std::vector<std::shared_ptr<acceptor>>> acceptors_;
  net::signal_set signals_;
  semaphore reloads_;
  net::steady_timer grace_;
  net::steady_timer patience_;
  net::steady_timer look_;
  std::size_t most_clients_ = std::numeric_limits<std::size_t>::max();
  net::steady_timer watchdog_;
  std::atomic<std::size_t> silent_loops_{0};  // the number of loops that have not yet responded to the watchdog
  std::atomic<std::size_t> open_loops_{0};    // the number of loops that still accept connections during a drain
  bool is_finishing_ = false;
  bool is_ending_ = false;
  // until when the process waits for its sessions in Redis to end; max(): it does not wait yet
  time_point leaves_until_ = time_point::max();
};

}  // namespace canigo::gateway
