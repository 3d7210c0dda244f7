#pragma once

#include "canigo/metrics/exporter.hpp"

#include "families.hpp"

#include <string>

namespace canigo::metrics {

// The following functions add the metrics of each kind of statistics. `object`: the name of the object.
void show(families& f, const std::string& object, const scheduler_stats& s);
void show(families& f, const std::string& object, const semaphore_stats& s);
void show(families& f, const std::string& object, const flow_stats& s);
void show(families& f, const std::string& object, const adaptive_limit_stats& s);
void show(families& f, const std::string& object, const circuit_breaker_stats& s);
void show(families& f, const std::string& object, const limiter_stats& s);
void show(families& f, const std::string& object, const pool_stats& s);
void show(families& f, const std::string& object, const shared_limit_stats& s);
void show(families& f, const std::string& object, const keyed_stats& s);
void show(families& f, const std::string& object, const loop_lag_stats& s);
void show(families& f, const std::string& object, const connection_stats& s);
void show(families& f, const std::string& object, const http_stats& s);
void show(families& f, const std::string& object, const jobs_stats& s);
/// Adds the metrics of the policy itself, and of all of its parts.
void show(families& f, const std::string& object, const policy& p);

}  // namespace canigo::metrics
