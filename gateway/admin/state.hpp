#pragma once

#include "canigo/net.hpp"

#include <asio/awaitable.hpp>

#include <string>

namespace canigo::gateway {

class admin_session;
class service;

/// What /api/state says, as one line of JSON: each upstream with its limits, its queue and its requests, the last
/// errors and, if asked for, the configuration without its secrets. Its size has a bound, whatever waits.
net::awaitable<std::string> state_of(service& s, admin_session& session, bool with_config);

}  // namespace canigo::gateway
