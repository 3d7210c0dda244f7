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

/// The result of routing a call: its tenant, its destination, and its priority and limits.
struct route_decision {
  std::size_t tenant = 0;  ///< an index into config::tenants
  std::shared_ptr<upstream_queue> queue;
  std::string_view target;      ///< the target in the outgoing request line
  std::string_view host_field;  ///< the value of the outgoing Host field
  struct texts {
    std::string target;
    std::string host_field;
  };
  std::unique_ptr<texts> own;  ///< owns the texts above that are neither in the client's head nor in the configuration
  bool is_tls = false;
  client_hints granted;
};

/// Decides the route of a request from its head. It stores the decision in `to`, and notes it in `r`. Returns a refusal
/// if the gateway does not accept the call.
///
/// `g` and `head` must outlive the decision.
std::optional<refusal> decide_route(const config_snapshot& g, const connected_client& client, const message_head& head,
                                    const request_plan& plan, call_services& services, call_record& r,
                                    route_decision& to);

}  // namespace canigo::gateway
