#pragma once

#include "gateway/call/call_host.hpp"
#include "gateway/call/call_record.hpp"
#include "gateway/call/call_services.hpp"
#include "gateway/call/config_snapshot.hpp"
#include "gateway/policy/client_hints.hpp"
#include "gateway/policy/head_rules.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/upstream/upstream_queue.hpp"
#include "gateway/wire/message.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The result of routing a call: its tenant, its upstream and target, its priority, and its limits.
struct route_decision {
  std::size_t tenant = 0;  ///< the index of the tenant in config::tenants
  std::shared_ptr<upstream_queue> queue;
  std::string_view target;      ///< the target in the request line that the upstream gets
  std::string_view host_field;  ///< the Host value that the upstream gets
  struct texts {
    std::string target;
    std::string host_field;
  };
  /// owns the texts of `target` and `host_field` that are neither in the client's head nor in the configuration
  std::unique_ptr<texts> own;
  bool is_tls = false;
  client_hints granted;
};

/// Decides the route of a request from its head. Stores the decision in `to`, and copies parts of it to the record `r`.
/// Returns a refusal if the gateway does not accept the call.
///
/// `g` and `head` must outlive the decision.
std::optional<refusal> decide_route(const config_snapshot& g, const connected_client& client, const message_head& head,
                                    const request_plan& plan, call_services& services, call_record& r,
                                    route_decision& to);

}  // namespace canigo::gateway
