#pragma once

#include "gateway/config/config.hpp"

#include <string>
#include <vector>

namespace canigo::gateway {

/// The differences that only a restart can make true: one sentence each, such as "threads has changed".
///
/// They are what a running process has built on: its threads, its listening sockets, Redis, and the shape of a limit,
/// at which callers wait. Everything else a reload changes.
std::vector<std::string> changes_for_restart(const config& now, const config& next);

}  // namespace canigo::gateway
