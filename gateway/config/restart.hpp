#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/report.hpp"

#include <vector>

namespace canigo::gateway {

/// The values of `next` that only a restart can make true.
///
/// They are what a running process has built on: its threads, its listening sockets, Redis, and the shape of a limit,
/// at which callers wait. Everything else a reload changes.
std::vector<value_error> changes_for_restart(const config& now, const config& next);

}  // namespace canigo::gateway
