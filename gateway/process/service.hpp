#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "gateway/call/call_loop.hpp"
#include "gateway/call/call_services.hpp"
#include "gateway/call/config_snapshot.hpp"
#include "gateway/config/config.hpp"
#include "gateway/process/access_log.hpp"
#include "gateway/process/recent_errors.hpp"
#include "gateway/upstream/shared_store.hpp"
#include "gateway/upstream/shared_sums.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace canigo::gateway {

class admin_handler;
class connection;

/// The data of one thread of the gateway: its event loop, its calls and its connections.
struct loop : call_loop {
  using call_loop::call_loop;

  std::unordered_set<connection*> connections;
};

/// Counts the client connections, in total and per client address. Threads: any.
class connection_counts {
 public:
  explicit connection_counts(const connection_limits& limits) : limits_{limits} {}
  /// Counts a new connection, and returns an empty text. If a limit is reached, does not count it, and returns the name
  /// of the limit. `address`: empty for a unix socket. All programs on this machine share the loopback address, so
  /// their connections count only in the total.
  std::string enter(const std::string& address);
  /// Counts a connection that was refused without a call of enter().
  void refuse() noexcept { refused_.fetch_add(1, std::memory_order_relaxed); }
  /// Counts a new connection without checking the limits. Call it if another connection will close soon to make room
  /// for it.
  void replace(const std::string& address);
  void leave(const std::string& address) noexcept;
  std::size_t all() const;
  /// Changes the limits. Connections that exceed the new limits are not closed.
  void set_limits(const connection_limits& limits);

  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  void count(const std::string& address);

  std::atomic<std::uint64_t> refused_{0};
  mutable std::mutex mutex_;
  connection_limits limits_;
  std::size_t all_ = 0;
  std::unordered_map<std::string, std::size_t> by_address_;
};

/// The data that all event loops of the process share.
class service : public call_services {
 public:
  /// Throws config_mistake if a file that the configuration names is missing or invalid.
  ///
  /// `file`: the file from which `c` was read. reload() reads the file again. `by`: answers requests to the admin's
  /// listener; it must outlive the service.
  service(config c, std::string file, const std::vector<std::unique_ptr<loop>>& loops, admin_handler& by);
  ~service();
  service(const service&) = delete;
  service& operator=(const service&) = delete;
  /// Throws config_mistake if the constructor would throw it. Opens no connection and creates no file.
  static void check(const config& c);

  /// Returns the current configuration. On an event loop, call_loop::now is faster.
  std::shared_ptr<const config_snapshot> current() const;

  /// Reads the configuration file again. Returns the errors in the file, one line each; after an error, nothing has
  /// changed. Without an error, the new limits apply to all waiting calls, and new requests use the new configuration.
  ///
  /// Call it on the first loop, one call at a time. It blocks that loop while it reads files.
  net::awaitable<std::vector<std::string>> reload();

  /// Returns the connection to the Redis that keeps shared limits; null if the configuration has none.
  const shared_store* store() const noexcept { return store_.get(); }
  const std::vector<std::unique_ptr<loop>>& loops() const noexcept { return loops_; }
  /// Returns the number of calls that wait, at all upstreams together.
  std::size_t waiting() const;
  /// At all upstreams and hosts, ends each wait of a call that would, by an estimate, last for more than `most` or
  /// beyond the call's deadline.
  void end_long_waits(duration most);
  using call_services::end_long_waits;
  /// Ends all waits of calls, at all upstreams and hosts.
  void stop_waiting() noexcept;
  /// Begins to end this instance's sessions in Redis. Call it when no call is left.
  void leave_redis() noexcept;
  /// Returns true while a session of this instance in Redis still has to end, or while a change of a budget's sum must
  /// still be written to Redis. Call it after leave_redis().
  bool is_leaving_redis() const;

  static constexpr std::size_t most_admins = 100;

  admin_handler* const admin;
  const time_point started = std::chrono::steady_clock::now();
  access_log log;
  recent_errors errors;
  connection_counts clients;
  /// Counts the connections to the admin's listener, which have limits of their own.
  connection_counts admins{{most_admins, most_admins}};
  std::atomic<std::size_t> callers{0};  ///< the number of connections, except those to the admin
  std::atomic<bool> has_cut{false};     ///< true: a request was cut off because the process ends

 private:
  std::vector<std::string> begin_reload(std::shared_ptr<config_snapshot>& next);
  net::awaitable<void> move_callers(std::shared_ptr<const config_snapshot> next);
  static std::shared_ptr<budget_ledger> open_state(const config& c);
  std::unique_ptr<shared_store> open_store(const config& c, const net::any_io_executor& loop);
  redis::client* client_of_store() const noexcept { return store_ ? &store_->client() : nullptr; }
  void end_waits_for_others();

  const std::string file_;
  const std::vector<std::unique_ptr<loop>>& loops_;
  const std::unique_ptr<shared_store> store_;
  std::shared_ptr<shared_sums> sums_;  // null if instances do not share their budgets
  mutable std::mutex mutex_;
  std::shared_ptr<const config_snapshot> current_;
};

}  // namespace canigo::gateway
