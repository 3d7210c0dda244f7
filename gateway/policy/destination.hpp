#pragma once

#include "gateway/config/config.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/wire/host_name.hpp"

#include <cstdint>
#include <string>

namespace canigo::gateway {

/// Returns the entry of `forward.allow` that allows a connection of forward mode to this host and port; null if no
/// entry does. A host that is an IP address must be in the list literally.
///
/// The addresses to which a host name resolves are checked later, when a connection is made.
const allowed_host* find_allowed(const forward_options& forward, const host_name& host, std::uint16_t port);

/// Builds the answer 403 to a request for a host that is not allowed.
refusal refuse_destination(const host_name& host, std::uint16_t port);
/// Builds the answer 403 that a CONNECT gets if the configuration allows no tunnels.
refusal refuse_tunnel();

/// Returns the name of the limit of a host in forward mode: "host:port". Different spellings of a host give the same
/// name.
std::string limit_name(const host_name& host, std::uint16_t port);

/// Returns the settings of a host in forward mode: those that all hosts share, with the name and the URL of this host.
upstream upstream_of(const forward_options& forward, const host_name& host, std::uint16_t port);

}  // namespace canigo::gateway
