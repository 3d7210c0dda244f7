#pragma once

#include "canigo/net.hpp"

#include <asio/awaitable.hpp>

#include <string>

namespace canigo::gateway {

class admin_session;
class service;

/// Returns the answer to /api/state as one line of JSON: each upstream with its limits, its queue and its requests, and
/// the last errors. `with_config`: adds the configuration without its secrets. The size is bounded even if many
/// requests wait.
net::awaitable<std::string> state_of(service& s, admin_session& session, bool with_config);

}  // namespace canigo::gateway
