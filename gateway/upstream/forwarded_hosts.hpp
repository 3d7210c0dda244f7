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

/// The hosts that calls reach in forward mode, and the permits for tunnels to all hosts together.
///
/// Each host has an upstream_queue, which is made on first use. For tunnels, each tenant has a queue of its own at each
/// host, and the queues of the tenants are served in turn.
///
/// The real host may still count calls that an earlier run of the gateway made. So the token buckets of a new host
/// start as if they had been empty at the gateway's start and had refilled since then.
///
/// There are at most `forward.hosts` hosts. A host is removed after a minute without a call, or earlier if space is
/// needed. But a host stays as long as its limit differs from that of a newly added host. Otherwise the gateway would
/// forget how much of the host's rates is used up. Threads: any.
class forwarded_hosts {
 public:
  /// Precondition: `c.forward` is set. `c` must outlive this object.
  forwarded_hosts(const config& c, const std::vector<net::any_io_executor>& loops);
  forwarded_hosts(const forwarded_hosts&) = delete;
  forwarded_hosts& operator=(const forwarded_hosts&) = delete;

  /// Returns the queue of this host, and creates it on first use. The queue lives at least as long as a caller holds
  /// the pointer. Returns null if there are already `forward.hosts` hosts and none can be removed.
  std::shared_ptr<upstream_queue> find(const host_name& host, std::uint16_t port, time_point now);
  /// Returns the queue of the host with this name; null if the host has no queue.
  std::shared_ptr<upstream_queue> known(std::string_view name) const;
  /// Returns the queues of all hosts; the most recently used one is the first.
  std::vector<std::shared_ptr<upstream_queue>> all() const;

  semaphore& tunnels() noexcept { return *tunnels_; }
  /// Returns the flow in which a tenant waits for tunnels to the host with this name. Creates the flow on first use.
  /// Returns null if the host has no queue.
  std::shared_ptr<const flow> share_of_tunnels(std::string_view name, std::string_view tenant);

  /// Whether the configuration allows calls to the host of this URL. The host need not have a queue yet.
  bool allows(const origin& url) const;

  /// Takes over the hosts, the permits for tunnels and all waiting calls of `before`. Applies the settings of this
  /// configuration. Hosts that this configuration does not allow are dropped. Preconditions: both configurations have
  /// the same number of rates and classes; no other function of this object was called yet.
  void take_over(const forwarded_hosts& before);
  /// Applies the settings that allow more than those of the previous configuration. Call it after take_over(). See
  /// upstream_queue::take_over().
  void end_take_over();
  /// Ends all waits for tunnels and for the limits of the hosts.
  void stop() noexcept;

 private:
  /// For one host, the flows in which tenants wait for tunnels, by the tenants' names. When `most_flows_of_a_host`
  /// tenants have a flow, further tenants share the flow with the name "".
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
  /// Moves the entries of hosts that are no longer needed into the list `dropped`, beginning with the least recently
  /// used host. The caller must destroy them after it has released the mutex.
  void drop(time_point now, order& dropped);

  const config& config_;
  const std::vector<net::any_io_executor> loops_;
  time_point since_ = std::chrono::steady_clock::now();
  std::shared_ptr<semaphore> tunnels_;
  mutable std::mutex mutex_;
  order hosts_;  // the most recently used host is the first
  std::unordered_map<std::string_view, order::iterator> by_name_;
};

}  // namespace canigo::gateway
