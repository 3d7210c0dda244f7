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

/// The hosts that forward mode leads to, each with what stands before an upstream, made on its first use; and the
/// places for tunnels, of all hosts together. For these each tenant has a line of its own at each host, and lines take
/// turns.
///
/// A host begins with the tokens that it would have if it had been there, and empty, since the gateway began: the other
/// side may remember the calls of an earlier one.
///
/// There are at most `forward.hosts`. A host is dropped once nobody has used it for a minute, or at once if room is
/// needed; but not before it is as a new one would be, for else it would forget how much of its rate is used up.
/// Threads: any.
class forwarded_hosts {
 public:
  /// The configuration has `forward`, and outlives this.
  forwarded_hosts(const config& c, const std::vector<net::any_io_executor>& loops);
  forwarded_hosts(const forwarded_hosts&) = delete;
  forwarded_hosts& operator=(const forwarded_hosts&) = delete;

  /// What stands before this host, which stays while somebody has it. Null if as many hosts as may be are in use.
  std::shared_ptr<upstream_queue> find(const host_name& host, std::uint16_t port, time_point now);
  /// What stands before the host with this name, if it is there; null if not.
  std::shared_ptr<upstream_queue> known(std::string_view name) const;
  /// All of them, the one that was used last first.
  std::vector<std::shared_ptr<upstream_queue>> all() const;

  semaphore& tunnels() noexcept { return *tunnels_; }
  /// The share of the tunnels that requests of a tenant for the host with this name ask for. Null if the host is not
  /// there.
  std::shared_ptr<const flow> share_of_tunnels(std::string_view name, std::string_view tenant);

  /// Whether the host of this URL is allowed, whether it is there or not.
  bool allows(const origin& url) const;

  /// Goes on with the hosts and tunnels of `before`, with those who wait there, under the terms of this configuration.
  /// Hosts that are not allowed any more stay behind. Both have as many rates and classes. Before anybody uses this.
  void take_over(const forwarded_hosts& before);
  /// What remains for later; see upstream_queue.
  void end_take_over();
  /// Ends all who wait, here or at a host.
  void stop() noexcept;

 private:
  /// By the tenant's name, of those that have asked for one. All those that come after many others are at "".
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
  /// Takes out hosts that may be dropped, the one that was used first first. They are destroyed without the mutex.
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
