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

/// The part of one thread, with its connections.
struct loop : call_loop {
  using call_loop::call_loop;

  std::unordered_set<connection*> connections;
};

/// How many connections there are, in all and from each address. Threads: any.
class connection_counts {
 public:
  explicit connection_counts(const connection_limits& limits) : limits_{limits} {}
  /// Counts one more connection, unless that is too many: then the text names the bound. `address` is empty for a unix
  /// socket. All programs of this machine have the same address, so connections over the loopback count to `all` alone.
  std::string enter(const std::string& address);
  /// Counts a connection that is refused for another reason.
  void refuse() noexcept { refused_.fetch_add(1, std::memory_order_relaxed); }
  /// Counts a connection that takes the place of another, which is about to leave.
  void replace(const std::string& address);
  void leave(const std::string& address) noexcept;
  std::size_t all() const;
  /// Changes the limits. No connection is closed because of it.
  void set_limits(const connection_limits& limits);

  /// How many connections were refused.
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  void count(const std::string& address);

  std::atomic<std::uint64_t> refused_{0};
  mutable std::mutex mutex_;
  connection_limits limits_;
  std::size_t all_ = 0;
  std::unordered_map<std::string, std::size_t> by_address_;
};

/// The parts of the process that all loops share.
class service : public call_services {
 public:
  /// Throws config_mistake if a thing that the configuration names is missing or refused.
  ///
  /// `file`: where `c` was read, and where reload() reads the next configuration.
  /// `by`: answers the admin's listener, and outlives the service.
  service(config c, std::string file, const std::vector<std::unique_ptr<loop>>& loops, admin_handler& by);
  ~service();
  service(const service&) = delete;
  service& operator=(const service&) = delete;
  /// Throws as the constructor does. Makes no connection and no file.
  static void check(const config& c);

  /// The newest snapshot. On a loop, call_loop::now is cheaper.
  std::shared_ptr<const config_snapshot> current() const;

  /// Reads the file again. Returns its mistakes, one line each; if there are any, nothing has changed. Otherwise the
  /// limits change for all calls that wait, and new requests go by the new configuration.
  ///
  /// Call it on the first loop, one call at a time. Blocks the loop while it reads files.
  net::awaitable<std::vector<std::string>> reload();

  /// The Redis of shared limits; null: the configuration has none.
  const shared_store* store() const noexcept { return store_.get(); }
  const std::vector<std::unique_ptr<loop>>& loops() const noexcept { return loops_; }
  /// How many calls wait, for all upstreams.
  std::size_t waiting() const;
  /// Ends the waits at all upstreams and hosts that are longer than `most`.
  void end_long_waits(duration most);
  using call_services::end_long_waits;
  /// Ends all waits.
  void stop_waiting() noexcept;

  static constexpr std::size_t most_admins = 100;

  admin_handler* const admin;
  const time_point started = std::chrono::steady_clock::now();
  access_log log;
  recent_errors errors;
  connection_counts clients;
  /// The connections to the admin's listener, which accepts even if there are too many clients.
  connection_counts admins{{most_admins, most_admins}};
  std::atomic<std::size_t> callers{0};  ///< connections other than the admin's
  std::atomic<bool> has_cut{false};     ///< a request was cut by the end of the process

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
  mutable std::mutex mutex_;
  std::shared_ptr<const config_snapshot> current_;
};

}  // namespace canigo::gateway
