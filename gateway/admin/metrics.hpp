#pragma once

#include <string>

namespace canigo::gateway {

class service;

/// What Prometheus gets from /metrics. docs/gateway-admin.md has a table of it. Allocates.
std::string metrics_of(service& s);

}  // namespace canigo::gateway
