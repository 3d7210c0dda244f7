#pragma once

#include "canigo/limiter.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"
#include "gateway/policy/spent_quotas.hpp"
#include "gateway/upstream/upstream_queue.hpp"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// Returns the milliseconds from `now` to `end`; null if the end is unknown.
nlohmann::json until(time_point end, time_point now);

/// Returns the instant in UTC, such as "2026-11-30T12:00:00Z".
std::string utc(std::chrono::system_clock::time_point t);

/// Returns the text; null if the text is empty.
nlohmann::json or_null(std::string_view text);

/// Adds to a list of pauses one pause for each used-up quota.
void add_quotas(nlohmann::json& to, const std::vector<spent_quota>& spent, time_point now);

/// Describes the pauses that are in force, except for the pauses of single tenants and the pauses for used-up quotas.
nlohmann::json pauses_of(const pause_book& pauses, time_point now);

/// Describes each target of an upstream: its limits, its pauses, and its number of calls. The result is empty for an
/// upstream without a list of targets.
nlohmann::json targets_of(upstream_queue& q, const limiter_stats& stats, time_point now);

/// Describes each model that has limits of its own: its limits, the number of its running calls, and the number of its
/// granted calls.
nlohmann::json models_of(upstream_queue& q, const limiter_stats& stats);

/// Returns the names of the targets in a set.
nlohmann::json names_of_targets(const upstream& u, target_set of);

}  // namespace canigo::gateway
