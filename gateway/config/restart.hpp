#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/report.hpp"

#include <vector>

namespace canigo::gateway {

/// Returns the values of `next` that differ from those of `now` and take effect only after a restart.
///
/// A running process can't change its threads, its listening sockets or Redis. While calls wait at a limit, it can't
/// change the number and units of the limit's rates. A reload applies all other changes.
std::vector<value_error> changes_for_restart(const config& now, const config& next);

}  // namespace canigo::gateway
