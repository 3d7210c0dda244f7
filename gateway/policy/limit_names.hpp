#pragma once

#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"

#include <string>
#include <vector>

namespace canigo::gateway {

/// Returns the names of an upstream's rates for logs, metrics and the page, in the order of `rates`: for example
/// "requests/1m" and "tokens/1m".
///
/// A name contains only the unit and the period, so the series of a metric continues when a quota is raised. If two
/// rates have the same unit and period, the name of the second one ends in "#2".
std::vector<std::string> names_of_rates(const std::vector<rate_limit>& rates);

/// Returns the name of the limit for which a request waits: the name of a rate, "concurrency", "share", "paused",
/// "targets" or "tenant". Empty: the request waits for no limit.
///
/// "paused" means that the upstream or the request's tenant is paused. "tenant" means a limit that only this tenant
/// has.
std::string name_of(const wait_reason& why, const std::vector<rate_limit>& rates);
/// Returns the name of the limit for which a request in the queue of upstream `u` waits. If the request waits for
/// targets, the result names a limit of the target that can serve it first, such as "requests/1m of team-key". If the
/// request waits for its model, the result names a limit in `m` and the pattern of `m`, such as "requests/1m of
/// gpt-x*".
std::string name_of(const wait_reason& why, const upstream& u, const model_limit* m = nullptr);

/// Returns two header lines with their line ends: RateLimit-Policy lists all rates, and RateLimit describes the rate
/// that delays requests most. Empty if there are no rates.
///
/// Source: draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4.
std::string rate_fields(const std::vector<rate_limit>& rates, const wait_reason& why, duration reset);

}  // namespace canigo::gateway
