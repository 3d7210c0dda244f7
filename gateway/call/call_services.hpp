#pragma once

#include "canigo/time.hpp"

#include "gateway/call/call_counts.hpp"
#include "gateway/call/call_loop.hpp"
#include "gateway/call/call_record.hpp"
#include "gateway/call/config_snapshot.hpp"
#include "gateway/call/pause_origins.hpp"
#include "gateway/policy/budget_ledger.hpp"
#include "gateway/policy/first_arrivals.hpp"
#include "gateway/policy/own_places.hpp"
#include "gateway/upstream/link.hpp"
#include "gateway/upstream/name_lookup.hpp"
#include "gateway/upstream/upstream_queue.hpp"
#include "gateway/wire/request_body.hpp"

#include <asio/ip/tcp.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace canigo::gateway {

/// The parts of the process that all calls share. Threads: any, unless it says otherwise.
class call_services {
 public:
  /// `loops` must outlive this object. `buffered`: most bytes of bodies that are kept at once, of all requests
  /// together. `money`: the sums of budgets.
  call_services(std::vector<call_loop*> loops, std::uint64_t buffered, std::shared_ptr<budget_ledger> money);
  call_services(const call_services&) = delete;
  call_services& operator=(const call_services&) = delete;

  surroundings around(const config_snapshot& g, bool of_client) noexcept {
    // If clients choose the hosts, their names are looked up apart, so that they hold up no name of an upstream.
    return {g.trust(), own_, of_client ? names_of_clients_ : names_, most_files};
  }
  /// Notes an address at which the gateway listens, so that no request leads there. Call it before any loop runs.
  void add_own_place(const net::ip::tcp::endpoint& listener) { own_.add(listener); }
  /// "1.1 canigo-" and a number of this process, for Via.
  const std::string& via() const noexcept { return via_; }
  /// A new id at each call.
  std::string new_request_id();

  /// Pauses a target of an upstream, or a tenant's part of the upstream, and ends the waits that have become too long.
  /// `r` is the request whose response, with this status, asked for it.
  void pause(upstream_queue& q, std::size_t target, std::size_t tenant, time_point until, const call_record& r,
             int status);
  /// See upstream_queue::refuse_key(). `r` is the request that the target has refused with this status.
  bool refuse_key(upstream_queue& q, std::size_t target, time_point started, const call_record& r, int status);
  /// The answer to `r` with this status says that a quota is used up: see upstream_queue::note_spent(). Ends the waits
  /// of the calls that need it, or lets them wait for other targets.
  void note_spent(upstream_queue& q, std::size_t target, std::size_t tenant, spent_quota told, const call_record& r,
                  int status);
  /// Ends the waits for `q` that are longer than `most`, by their estimates, or longer than the call may wait.
  void end_long_waits(upstream_queue& q, duration most);
  /// Closes the idle connections to upstreams soon, because a connection lacks a descriptor.
  void close_idle_links();

  /// Call it when the process will end: each connection has one more request at most, and no call waits beyond `end`.
  void drain(time_point end) noexcept { end_.store(end.time_since_epoch().count(), std::memory_order_relaxed); }
  bool is_draining() const noexcept { return end() != time_point::max(); }
  /// The end of the drain; max(): there is none.
  time_point end() const noexcept { return time_point{duration{end_.load(std::memory_order_relaxed)}}; }

  /// A connection to an upstream has a descriptor below this one. Set before any loop runs.
  int most_files = std::numeric_limits<int>::max();

  call_counts counts;
  pause_origins origins;
  first_arrivals arrivals;
  /// The sums of budgets. A call that has reserved money keeps them, even when the process ends.
  const std::shared_ptr<budget_ledger> budgets;
  kept_bytes kept;

 private:
  void end_waits_of_paused(upstream_queue& q);

  const std::vector<call_loop*> call_loops_;
  own_places own_;
  name_lookup names_;
  name_lookup names_of_clients_;
  std::string process_;
  std::string via_;
  std::atomic<std::uint64_t> next_request_{1};
  std::atomic<duration::rep> end_{duration::max().count()};
  std::atomic<duration::rep> idle_closed_{duration::min().count()};  // the beginning of the last close_idle_links()
};

}  // namespace canigo::gateway
