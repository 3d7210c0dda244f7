#pragma once

#include "gateway/call/call_record.hpp"

#include <string>

namespace canigo::gateway {

/// The line of the access log for a request that has just ended, with its line end. It is one object of JSON.
std::string log_line(const call_record& r);

}  // namespace canigo::gateway
