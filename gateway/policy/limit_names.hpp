#pragma once

#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"

#include <string>
#include <vector>

namespace canigo::gateway {

/// Returns the names of an upstream's rates for log, metrics and page, in the order of `rates`: "requests/1m",
/// "tokens/1m".
///
/// A name contains only the unit and the period, so the metric's series continues when a quota is raised. If two rates
/// have the same unit and period, the name of the second one ends in "#2".
std::vector<std::string> names_of_rates(const std::vector<rate_limit>& rates);

/// Returns the name of the limit that a request waits for: the name of a rate, "concurrency", "share", "paused",
/// "targets" or "tenant". Empty: the request waits for no limit.
///
/// "paused" also stands for a pause of one tenant. "tenant" stands for a limit of the tenant's own.
std::string name_of(const wait_reason& why, const std::vector<rate_limit>& rates);
/// Returns the name of the limit that a request of an upstream waits for. If the request waits for the targets, the
/// name is that of a limit of the target that can serve it first: "requests/1m of team-key". If the request waits for
/// its model, the name is that of a limit in `m`, with the pattern of `m`: "requests/1m of gpt-x*".
std::string name_of(const wait_reason& why, const upstream& u, const model_limit* m = nullptr);

/// Returns two fields, each with its line end: RateLimit-Policy lists all rates, RateLimit describes the rate that
/// delays requests most. Empty if there are no rates.
///
/// Source: draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4.
std::string rate_fields(const std::vector<rate_limit>& rates, const wait_reason& why, duration reset);

}  // namespace canigo::gateway
