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
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// A configuration, and what is made of it. A reload makes another one; a request keeps the one that it began with.
///
/// Immutable, except for what its queues do. Threads: any.
class config_snapshot {
 public:
  /// Throws config_mistake for what the configuration names and is not there, or is refused.
  ///
  /// `store`: where instances share limits; null: nowhere.
  /// `before`: the config_snapshot that this one is to replace, if any. Nothing of it changes before take_over().
  config_snapshot(config c, const std::vector<net::any_io_executor>& loops, redis::client* store,
                  const config_snapshot* before);
  /// The certificate of each listener; null: it has none. Throws as the constructor does.
  static std::vector<std::unique_ptr<net::ssl::context>> make_certificates(const config& c);
  config_snapshot(const config_snapshot&) = delete;
  config_snapshot& operator=(const config_snapshot&) = delete;

  /// Takes over the limits of `before`, with those who wait at them, under the terms of this configuration. What those
  /// terms allow beyond the earlier ones comes with end_take_over(), once nobody waits by a share of `before`.
  void take_over(const config_snapshot& before);
  void end_take_over();

  const config settings;
  const route_table routes;
  const identity_table identities;

  upstream_queue& queue(std::size_t upstream) const noexcept { return *queues_[upstream]; }
  std::size_t queues() const noexcept { return queues_.size(); }
  /// Of the upstream with this name, or the host of forward mode; null: there is none.
  std::shared_ptr<upstream_queue> queue_of(std::string_view upstream) const;
  /// An index into settings.tenants.
  std::optional<std::size_t> tenant_of(std::string_view name) const noexcept;
  /// Null without forward mode.
  forwarded_hosts* hosts() const noexcept { return hosts_.get(); }
  /// The certificates that upstreams are checked against.
  net::ssl::context& trust() const noexcept { return *trust_; }
  /// The certificate of a listener; null: it has none.
  net::ssl::context* certificate(std::size_t listener) const noexcept { return certificates_[listener].get(); }

 private:
  std::unique_ptr<net::ssl::context> trust_;
  std::vector<std::unique_ptr<net::ssl::context>> certificates_;  // by listener
  std::vector<std::shared_ptr<upstream_queue>> queues_;           // by upstream
  std::unique_ptr<forwarded_hosts> hosts_;
};

}  // namespace canigo::gateway
