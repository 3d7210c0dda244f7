#pragma once

#include <string>

namespace canigo::gateway {

class service;

/// The metrics that Prometheus reads from /metrics; docs/gateway-admin.md has a table of them. Allocates.
std::string metrics_of(service& s);

}  // namespace canigo::gateway
