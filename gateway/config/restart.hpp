#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/report.hpp"

#include <vector>

namespace canigo::gateway {

/// Returns the values of `next` that differ from those of `now` and take effect only after a restart.
///
/// For example, a running process can't change its threads, its listening sockets, its Redis server or its priority
/// classes. Calls may be waiting at a limit, so the number and the units of the limit's rates can't change either. A
/// reload applies all changes that this function does not return.
std::vector<value_error> changes_for_restart(const config& now, const config& next);

}  // namespace canigo::gateway
