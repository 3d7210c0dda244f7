#pragma once

#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"

#include <string>
#include <vector>

namespace canigo::gateway {

/// The names of an upstream's rates for log, metrics and page, in their order: "requests/1m", "tokens/1m".
///
/// A name has the unit and the period, so a series goes on when a quota is raised. If two rates have the same unit and
/// period, the second one's name ends in "#2".
std::vector<std::string> names_of_rates(const std::vector<rate_limit>& rates);

/// The name of the limit that a request waits for: a rate's, "concurrency", "share", "paused", "targets" or "tenant".
/// Empty: it waits for none.
///
/// "paused" also stands for a pause of the tenant alone, and "tenant" for a limit of the tenant's own.
std::string name_of(const wait_reason& why, const std::vector<rate_limit>& rates);
/// The name of the limit that a request of an upstream waits for. If it waits for the targets, that is a limit of the
/// target that can serve it first: "requests/1m of team-key".
std::string name_of(const wait_reason& why, const upstream& u);

/// The fields RateLimit-Policy, of all rates, and RateLimit, of the one that binds, each with its line end. Empty if
/// there are no rates.
///
/// Source: draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4.
std::string rate_fields(const std::vector<rate_limit>& rates, const wait_reason& why, duration reset);

}  // namespace canigo::gateway
