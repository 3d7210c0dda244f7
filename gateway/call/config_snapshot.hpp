#pragma once

#include "canigo/net.hpp"

#include "gateway/config/config.hpp"
#include "gateway/policy/identity.hpp"
#include "gateway/policy/routes.hpp"
#include "gateway/upstream/forwarded_hosts.hpp"
#include "gateway/upstream/upstream_queue.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/ssl/context.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// A configuration, and the objects made from it. A reload makes a new snapshot. A request keeps the snapshot that was
/// in use when the request began.
///
/// Immutable, except for the state of its queues. Threads: any.
class config_snapshot {
 public:
  /// Throws config_mistake if a file that the configuration names, such as a certificate, is missing or invalid.
  ///
  /// `store`: the Redis client for limits that several instances share; null: no limit is shared. `before`: the
  /// snapshot that this one will replace; null: there is none. `before` is not changed until take_over().
  config_snapshot(config c, const std::vector<net::any_io_executor>& loops, redis::client* store,
                  const config_snapshot* before);
  /// Returns the TLS settings of each listener; null for a listener without TLS. Throws config_mistake like the
  /// constructor.
  static std::vector<std::unique_ptr<net::ssl::context>> make_certificates(const config& c);
  config_snapshot(const config_snapshot&) = delete;
  config_snapshot& operator=(const config_snapshot&) = delete;

  /// Takes over the limits of `before`, with the calls that wait for these limits, and applies the settings of this
  /// configuration. Settings that allow more than those of `before` take effect in end_take_over(). Call
  /// end_take_over() when no call waits under a tenant's flow of `before` any more.
  void take_over(const config_snapshot& before);
  void end_take_over();

  const config settings;
  const route_table routes;
  const identity_table identities;
  const std::string keep_alive_line;  ///< the header line for a response after which the client's connection stays open

  upstream_queue& queue(std::size_t upstream) const noexcept { return *queues_[upstream]; }
  std::size_t queues() const noexcept { return queues_.size(); }
  /// Returns the queue of the upstream with this name, or else of the host with this name in forward mode. Returns null
  /// if there is neither.
  std::shared_ptr<upstream_queue> queue_of(std::string_view upstream) const;
  /// Returns the index of the tenant in settings.tenants; std::nullopt if no tenant has this name.
  std::optional<std::size_t> tenant_of(std::string_view name) const noexcept;
  /// The hosts of forward mode; null if forward mode is not configured.
  forwarded_hosts* hosts() const noexcept { return hosts_.get(); }
  /// The certificate authorities that are trusted for upstreams.
  net::ssl::context& trust() const noexcept { return *trust_; }
  /// The TLS settings of a listener; null for a listener without TLS.
  net::ssl::context* certificate(std::size_t listener) const noexcept { return certificates_[listener].get(); }

 private:
  std::unique_ptr<net::ssl::context> trust_;
  std::vector<std::unique_ptr<net::ssl::context>> certificates_;  // the TLS settings of each listener, by its index
  std::vector<std::shared_ptr<upstream_queue>> queues_;           // the queue of each upstream, by its index
  std::unique_ptr<forwarded_hosts> hosts_;
};

}  // namespace canigo::gateway
