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
#include "gateway/upstream/budget_lines.hpp"
#include "gateway/upstream/link.hpp"
#include "gateway/upstream/name_lookup.hpp"
#include "gateway/upstream/upstream_queue.hpp"
#include "gateway/wire/request_body.hpp"

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace canigo::gateway {

/// The objects of the process that all calls share. Threads: any, unless a function says otherwise.
class call_services {
 public:
  /// `loops` must outlive this object. `buffered`: the max number of bytes that the bodies of all requests together may
  /// occupy in memory. `money`: the spent and reserved sums of the budgets. `priorities`, `ageing`: the settings of the
  /// queues in which calls wait for money of a budget.
  call_services(std::vector<call_loop*> loops, std::uint64_t buffered, std::shared_ptr<budget_ledger> money,
                int priorities, duration ageing);
  call_services(const call_services&) = delete;
  call_services& operator=(const call_services&) = delete;

  surroundings around(const config_snapshot& g, bool of_client) noexcept {
    // Look-ups of host names that clients choose may be slow. They have a resolver of their own, so that they do not
    // delay the look-ups of upstreams' names.
    return {g.trust(), own_, of_client ? names_of_clients_ : names_, most_files};
  }
  /// Adds an address at which the gateway itself listens, so that calls to this address are refused as loops. Call it
  /// before any event loop runs.
  void add_own_place(const net::ip::tcp::endpoint& listener) { own_.add(listener); }
  /// The gateway's entry in Via fields: "1.1 canigo-" and a number of this process.
  const std::string& via() const noexcept { return via_; }
  std::string new_request_id();

  /// Pauses a target of an upstream, or only one tenant at that target. Then ends the waits of calls that would now
  /// wait too long. `r`: the request whose response asked for the pause. `status`: the status of that response.
  void pause(upstream_queue& q, std::size_t target, std::size_t tenant, time_point until, const call_record& r,
             int status);
  /// Calls upstream_queue::refuse_key(). If refuse_key() pauses the target, ends the waits of calls that would now wait
  /// too long. `r`: the request for which the target rejected the gateway's key. `status`: the status of the response.
  bool refuse_key(upstream_queue& q, std::size_t target, time_point started, const call_record& r, int status);
  /// Notes that a quota is used up: see upstream_queue::note_spent(). A waiting call that needs the quota then waits
  /// only for other targets. If no other target may serve the call, its wait ends. `r`: the request whose response
  /// reported the used-up quota. `status`: the status of that response.
  void note_spent(upstream_queue& q, std::size_t target, std::size_t tenant, spent_quota told, const call_record& r,
                  int status);
  /// Ends the waits of calls in `q` that, by the estimate, would wait for more than `most` or beyond their deadlines.
  void end_long_waits(upstream_queue& q, duration most);
  /// Call it when a target can't serve a waiting call, because the target's budget has too little money left. Within a
  /// second, each such call checks again which targets may serve it. By then the budget's next window may have begun,
  /// or another call may have given money back.
  void watch_money_of_targets();
  /// Makes each event loop close its idle connections to upstreams, because a file descriptor is needed. Returns
  /// immediately.
  void close_idle_links();

  /// Call it when the process will end at `end`. From then on each client connection serves at most one more request,
  /// and no call waits beyond `end`.
  void drain(time_point end) noexcept { end_.store(end.time_since_epoch().count(), std::memory_order_relaxed); }
  bool is_draining() const noexcept { return end() != time_point::max(); }
  /// When the process will end; max() if drain() was not called.
  time_point end() const noexcept { return time_point{duration{end_.load(std::memory_order_relaxed)}}; }
  /// Call it when the last part of a drain begins: from then on no call waits.
  void end_waits() noexcept { may_wait_.store(false, std::memory_order_relaxed); }
  bool may_wait() const noexcept { return may_wait_.load(std::memory_order_relaxed); }

  /// A connection to an upstream must have a file descriptor below this number. It is set before any event loop runs.
  int most_files = std::numeric_limits<int>::max();

  call_counts counts;
  pause_origins origins;
  first_arrivals arrivals;
  /// The spent and reserved sums of the budgets. The ledger is shared, because a call with reserved money may outlive
  /// this object.
  const std::shared_ptr<budget_ledger> budgets;
  /// The queues of calls that wait for money of a budget. When a budget has got money back, `budgets` notifies the
  /// queues.
  const std::shared_ptr<budget_lines> lines;
  kept_bytes kept;

 private:
  void end_waits_of_paused(upstream_queue& q);
  void look_at_money_of_targets();

  const std::vector<call_loop*> call_loops_;
  own_places own_;
  name_lookup names_;
  name_lookup names_of_clients_;
  std::string process_;
  std::string via_;
  std::atomic<std::uint64_t> next_request_{1};
  std::atomic<duration::rep> end_{duration::max().count()};
  std::atomic<bool> may_wait_{true};
  std::atomic<bool> watches_money_{false};
  net::steady_timer money_timer_;  // runs look_at_money_of_targets() on the first loop
  std::atomic<duration::rep> idle_closed_{duration::min().count()};  // when close_idle_links() last closed connections
};

}  // namespace canigo::gateway
