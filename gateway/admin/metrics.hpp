#pragma once

#include <string>

namespace canigo::gateway {

class service;

/// Returns the text of the metrics for /metrics, which Prometheus reads. docs/gateway-admin.md lists them. Allocates.
std::string metrics_of(service& s);

}  // namespace canigo::gateway
