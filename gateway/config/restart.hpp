#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/report.hpp"

#include <vector>

namespace canigo::gateway {

/// The values of `next` that need a restart.
///
/// A running process is built on them: its threads, its listening sockets, Redis, and the shape of a limit at which
/// calls wait. A reload changes every other value.
std::vector<value_error> changes_for_restart(const config& now, const config& next);

}  // namespace canigo::gateway
