#pragma once

#include "gateway/call/call_record.hpp"

#include <string>

namespace canigo::gateway {

/// Returns the line of the access log for a request that has just ended: one JSON object and a line end.
std::string log_line(const call_record& r);

}  // namespace canigo::gateway
