#pragma once

#include "canigo/redis/error.hpp"

#include <string_view>
#include <system_error>

namespace canigo::redis::detail {

/// Whether a retry is useless until the server, its users, its keys or the client's URL change. `text`: the server's
/// error text, or empty.
bool is_permanent(std::error_code ec, std::string_view text) noexcept;

/// Whether other processes keep the limit in a form that this process can't share. Such a conflict is an error of the
/// options or of the deployment, and not an outage. So requests are refused in every failure mode.
bool is_conflict(std::error_code ec) noexcept;

/// Whether the client drops its connection after this error, so that the next connection may reach another server, or
/// the same server when it is ready.
bool wants_other_server(error e, bool has_sentinels) noexcept;

/// Whether another node of the cluster may serve a request that failed with this error. True if the node that failed is
/// unreachable, does not answer, is no master, or may not write.
bool is_of_the_node(std::error_code ec) noexcept;

}  // namespace canigo::redis::detail
