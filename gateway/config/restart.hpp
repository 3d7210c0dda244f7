#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/report.hpp"

#include <vector>

namespace canigo::gateway {

/// Returns the values of `next` that differ from `now` and need a restart.
///
/// A running process can't change its threads, its listening sockets, Redis, or the number and units of a limit's rates
/// while calls wait there. A reload applies all other changes.
std::vector<value_error> changes_for_restart(const config& now, const config& next);

}  // namespace canigo::gateway
