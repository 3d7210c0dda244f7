#pragma once

#include "canigo/flow.hpp"
#include "canigo/net.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"
#include "gateway/upstream/upstream_queue.hpp"
#include "gateway/wire/host_name.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace canigo::gateway {

/// The hosts that forward mode leads to, and the places for tunnels, of all hosts together.
///
/// Each host has an upstream_queue, which is made on first use. For tunnels, each tenant has a queue of its own at each
/// host, and these queues take turns.
///
/// A new host begins with the tokens of a bucket that was empty when the gateway began: the host may remember the calls
/// of an earlier gateway.
///
/// There are at most `forward.hosts`. A host is dropped once no call has used it for a minute, or at once if room is
/// needed. But it stays until a new queue would be in the same state: otherwise the gateway would forget how much of
/// the host's rates is used up.
/// Threads: any.
class forwarded_hosts {
 public:
  /// The configuration has `forward`, and outlives this.
  forwarded_hosts(const config& c, const std::vector<net::any_io_executor>& loops);
  forwarded_hosts(const forwarded_hosts&) = delete;
  forwarded_hosts& operator=(const forwarded_hosts&) = delete;

  /// The queue of this host, which stays as long as a caller holds it. Null if `forward.hosts` are in use.
  std::shared_ptr<upstream_queue> find(const host_name& host, std::uint16_t port, time_point now);
  /// The queue of the host with this name; null: there is no such host.
  std::shared_ptr<upstream_queue> known(std::string_view name) const;
  /// The queues of all hosts, the one that was used last first.
  std::vector<std::shared_ptr<upstream_queue>> all() const;

  semaphore& tunnels() noexcept { return *tunnels_; }
  /// The share of the tunnels that requests of a tenant for the host with this name ask for. Null: there is no such
  /// host.
  std::shared_ptr<const flow> share_of_tunnels(std::string_view name, std::string_view tenant);

  /// Whether the configuration allows the host of this URL. A call need not have used the host.
  bool allows(const origin& url) const;

  /// Goes on with the hosts and tunnels of `before`, and the calls that wait there, under the terms of this
  /// configuration. Hosts that are not allowed any more stay behind. Both have the same number of rates and classes. To
  /// be called before any call uses this object.
  void take_over(const forwarded_hosts& before);
  /// Applies the terms that are looser than before; see upstream_queue.
  void end_take_over();
  /// Ends all waits, here and at the hosts.
  void stop() noexcept;

 private:
  /// By the name of each tenant that has asked for a tunnel. Further tenants than `most_flows_of_a_host` share the one
  /// at "".
  using shares = std::map<std::string, std::shared_ptr<flow>, std::less<>>;

  struct entry {
    host_name host;
    std::uint16_t port = 0;
    std::shared_ptr<upstream_queue> queue;
    time_point used;
    shares tunnels;
  };
  using order = std::list<entry>;

  shares taken_over(const shares& before) const;
  void add(entry e);
  /// Takes out hosts that may be dropped, beginning with the one that was used longest ago. The caller destroys them
  /// without the mutex.
  void drop(time_point now, order& dropped);

  const config& config_;
  const std::vector<net::any_io_executor> loops_;
  time_point since_ = std::chrono::steady_clock::now();
  std::shared_ptr<semaphore> tunnels_;
  mutable std::mutex mutex_;
  order hosts_;  // the one that was used last first
  std::unordered_map<std::string_view, order::iterator> by_name_;
};

}  // namespace canigo::gateway
