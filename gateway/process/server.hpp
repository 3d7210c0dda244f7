#pragma once

#include "canigo/semaphore.hpp"

#include "gateway/config/config.hpp"
#include "gateway/config/report.hpp"
#include "gateway/process/admin_handler.hpp"
#include "gateway/process/listeners.hpp"
#include "gateway/process/rare_message.hpp"
#include "gateway/process/service.hpp"
#include "gateway/process/supervisor.hpp"

#include <asio/awaitable.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include <atomic>
#include <functional>
#include <memory>
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

  /// Returns the addresses at which the server listens, in the order of the configuration. The address of the admin's
  /// listener is the last one.
  std::vector<std::string> addresses() const;

  /// Serves until SIGTERM or SIGINT. Then waits until all requests have ended or the time of the drain is over. A
  /// second signal ends the requests immediately. SIGHUP reloads the configuration. Returns true if all requests were
  /// served.
  bool run();

 private:
  void wait_for_signal();
  void watch();
  net::awaitable<std::vector<std::string>> reload();
  void drain();
  void begin_no_more(duration rest);
  void run(net::io_context& io);
  void run_loops();
  void finish();
  void end_admin();
  void look_for_end();
  void on_connections(const std::function<void(connection&)>& f);

  rlim_t files_;  // how many files this process may have open
  supervisor supervisor_;
  std::vector<std::unique_ptr<loop>> loops_;
  service service_;
  failure_report failures_;
  listeners listeners_;
  net::signal_set signals_;
  semaphore reloads_;
  net::steady_timer grace_;
  net::steady_timer patience_;
  net::steady_timer look_;
  net::steady_timer watchdog_;
  std::atomic<std::size_t> silent_loops_{0};  // the number of loops that have not yet responded to the watchdog
  bool is_finishing_ = false;
  bool is_ending_ = false;
  // until when the process waits for its sessions in Redis to end; max(): it does not wait yet
  time_point leaves_until_ = time_point::max();
};

}  // namespace canigo::gateway
