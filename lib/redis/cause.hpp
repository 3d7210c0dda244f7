#pragma once

#include "canigo/redis/error.hpp"

#include <string_view>
#include <system_error>

namespace canigo::redis::detail {

/// Whether trying again is of no use before the server, its users, its keys or our URL have changed. `text` is the text
/// of the server, if there is one.
bool is_permanent(std::error_code ec, std::string_view text) noexcept;

/// Whether other processes keep the limit in a way that this one can't share: no outage, but an error of the options or
/// of the deployment. It refuses requests in every failure mode.
bool is_conflict(std::error_code ec) noexcept;

/// Whether another server, or this one later, would answer otherwise than with this error and its text.
bool wants_other_server(error e, std::string_view text) noexcept;

/// Whether that server seems to serve no client: it can't be reached, is silent, or says that it is no master, or one
/// that may not write. `text` is its own.
bool is_of_the_node(std::error_code ec, std::string_view text) noexcept;

}  // namespace canigo::redis::detail
