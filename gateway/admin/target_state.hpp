#pragma once

#include "canigo/limiter.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"
#include "gateway/upstream/upstream_queue.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <vector>

namespace canigo::gateway {

/// Milliseconds from now; null: the end is unknown.
nlohmann::json until(time_point end, time_point now);

/// The pauses that are on, without those of tenants and quotas.
nlohmann::json pauses_of(const pause_book& pauses, time_point now);

/// Each target of an upstream: its limits, its pauses, and how many calls it has had. Empty without a list of targets.
nlohmann::json targets_of(upstream_queue& q, const limiter_stats& stats, time_point now);

/// The names of the targets in a set.
nlohmann::json names_of_targets(const upstream& u, target_set of);

}  // namespace canigo::gateway
