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

/// Whether the client gives up its connection to a server that answers so, because the next connection may lead to
/// another server, or to this one when it is ready.
bool wants_other_server(error e, bool has_sentinels) noexcept;

/// Whether another node of a cluster may serve what this node does not. This node can't be reached or is silent, or it
/// says that it is no master, or one that may not write.
bool is_of_the_node(std::error_code ec) noexcept;

}  // namespace canigo::redis::detail
