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

/// The tenant of a call, its destination, and how it is treated.
struct route_decision {
  std::size_t tenant = 0;  ///< an index into config::tenants
  std::shared_ptr<upstream_queue> queue;
  std::string_view target;      ///< the target in the request line that goes out
  std::string_view host_field;  ///< the value of Host, as it goes out
  struct texts {
    std::string target;
    std::string host_field;
  };
  std::unique_ptr<texts> own;  ///< has them if neither the client's head nor the configuration does
  bool is_tls = false;
  client_hints granted;
};

/// Fills `to` from the head of a request, and notes the decision in `r`. Returns the reason if the gateway refuses the
/// call.
///
/// `g` and `head` must outlive the decision.
std::optional<refusal> decide_route(const config_snapshot& g, const connected_client& client, const message_head& head,
                                    const request_plan& plan, call_services& services, call_record& r,
                                    route_decision& to);

}  // namespace canigo::gateway
