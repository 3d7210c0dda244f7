#pragma once

#include "gateway/admin/desk.hpp"
#include "gateway/config/config.hpp"
#include "gateway/http/access_log.hpp"
#include "gateway/http/call_counts.hpp"
#include "gateway/http/call_record.hpp"
#include "gateway/http/departure_watch.hpp"
#include "gateway/http/generation.hpp"
#include "gateway/http/pause_origins.hpp"
#include "gateway/http/recent_errors.hpp"
#include "gateway/http/request_body.hpp"
#include "gateway/http/request_list.hpp"
#include "gateway/policy/own_places.hpp"
#include "gateway/upstream/name_lookup.hpp"
#include "gateway/upstream/shared_store.hpp"

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace canigo::gateway {

class connection;

/// One thread's part: its events, the clients that it watches, and its connections.
struct loop {
  explicit loop(std::size_t n) : index{n}, requests{n} {}

  const std::size_t index;
  net::io_context io{1};
  departure_watch watch{io};
  std::unordered_set<connection*> connections;
  /// What new requests go by. Each loop counts its own uses of it, so that loops share no counter in the hot path.
  std::shared_ptr<const generation> now;
  request_list requests;
};

/// How many connections there are, in all and from each address. Threads: any.
class connection_counts {
 public:
  explicit connection_counts(const connection_limits& limits) : limits_{limits} {}
  /// Counts one more, unless that is too many: then the text names the bound. `address` may be empty: of a unix socket.
  /// All programs of this machine have the same address, so those of the loopback count to `all` alone.
  std::string enter(const std::string& address);
  /// Counts one that is not let in for another reason.
  void refuse() noexcept { refused_.fetch_add(1, std::memory_order_relaxed); }
  /// Counts one that takes the place of another, which is about to leave.
  void replace(const std::string& address);
  void leave(const std::string& address) noexcept;
  std::size_t all() const;
  /// Nobody is sent away who is there already.
  void set_limits(const connection_limits& limits);

  /// How many were not let in.
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  void count(const std::string& address);

  std::atomic<std::uint64_t> refused_{0};
  mutable std::mutex mutex_;
  connection_limits limits_;
  std::size_t all_ = 0;
  std::unordered_map<std::string, std::size_t> by_address_;
};

/// What all loops share.
class service {
 public:
  /// Throws config_mistake for what the configuration names and is not there, or is refused.
  ///
  /// `file`: where `c` was read, and where reload() reads the next one.
  service(config c, std::string file, const std::vector<std::unique_ptr<loop>>& loops);
  ~service();
  service(const service&) = delete;
  service& operator=(const service&) = delete;
  /// Throws as the constructor does. Connects to nobody, and makes no file.
  static void check(const config& c);

  /// The newest generation. On a loop, loop::now is cheaper.
  std::shared_ptr<const generation> current() const;

  /// Reads the file again. Returns what is wrong with it, one line each, and then nothing has changed. If nothing is
  /// wrong, limits change for all who wait, and new requests go by the new configuration.
  ///
  /// On the first loop, and one at a time. Blocks the loop for as long as it reads files.
  net::awaitable<std::vector<std::string>> reload();

  /// The Redis of shared limits; null: the configuration has none.
  const shared_store* store() const noexcept { return store_.get(); }
  /// `of_client`: the client chooses the host. Then no name that it chooses holds up those of upstreams.
  surroundings around(const generation& g, bool of_client) noexcept {
    return {g.trust(), own_, of_client ? names_of_clients_ : names_, most_files};
  }
  /// The gateway listens there, so no request may lead there. Before any loop runs.
  void add_own_place(const net::ip::tcp::endpoint& listener) { own_.add(listener); }
  const std::vector<std::unique_ptr<loop>>& loops() const noexcept { return loops_; }
  /// How many wait, for all upstreams.
  std::size_t waiting() const;
  /// "1.1 canigo-" and a number of this process, for Via.
  const std::string& via() const noexcept { return via_; }
  /// Another one each time.
  std::string new_request_id();

  /// Pauses an upstream, or what a tenant has of it, and ends the waits that have become too long. `r` is the request
  /// whose response, with this status, asked for it.
  void pause(upstream_queue& q, std::size_t tenant, time_point until, const call_record& r, int status);
  /// Ends the waits for `q` that are longer than `most` by their estimates, or than what was allowed for each.
  void end_long_waits(upstream_queue& q, duration most);

  /// Closes the connections to upstreams that nobody uses, soon: somebody lacks a descriptor. Any thread.
  void close_idle_links();

  /// The process ends: each connection has one more request at most, and nobody waits beyond `end`.
  void drain(time_point end) noexcept { end_.store(end.time_since_epoch().count(), std::memory_order_relaxed); }
  bool is_draining() const noexcept { return end() != time_point::max(); }
  /// When the drain ends; max(): there is none.
  time_point end() const noexcept { return time_point{duration{end_.load(std::memory_order_relaxed)}}; }
  /// Ends the waits at all upstreams and hosts that are longer than `most`.
  void end_long_waits(duration most);
  /// Ends all who wait.
  void stop_waiting() noexcept;

  static constexpr std::size_t most_admins = 100;

  /// A connection to an upstream has a descriptor below this one. Before any loop runs.
  int most_files = std::numeric_limits<int>::max();

  const time_point started = std::chrono::steady_clock::now();
  access_log log;
  call_counts counts;
  recent_errors errors;
  pause_origins origins;
  admin_desk desk;
  connection_counts clients;
  connection_counts admins{{most_admins, most_admins}};  ///< whose doors stay open when there are too many clients
  kept_bytes kept;
  std::atomic<std::size_t> callers{0};  ///< connections other than the admin's
  std::atomic<bool> has_cut{false};     ///< a request was ended by the end of the process

 private:
  std::vector<std::string> begin_reload(std::shared_ptr<generation>& next);
  net::awaitable<void> move_callers(std::shared_ptr<const generation> next);
  std::unique_ptr<shared_store> open_store(const config& c, const net::any_io_executor& loop);
  redis::client* client_of_store() const noexcept { return store_ ? &store_->client() : nullptr; }
  void end_waits_for_others();

  const std::string file_;
  const std::vector<std::unique_ptr<loop>>& loops_;
  const std::unique_ptr<shared_store> store_;
  own_places own_;
  name_lookup names_;
  name_lookup names_of_clients_;
  mutable std::mutex mutex_;
  std::shared_ptr<const generation> current_;
  std::string process_;
  std::string via_;
  std::atomic<std::uint64_t> next_request_{1};
  std::atomic<duration::rep> end_{duration::max().count()};
  std::atomic<duration::rep> idle_closed_{duration::min().count()};  // when that began last
};

}  // namespace canigo::gateway
