#pragma once

#include "gateway/config/config.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/wire/host_name.hpp"

#include <cstdint>
#include <string>

namespace canigo::gateway {

/// Returns the entry of `forward.allow` that allows forward mode to connect to this host and port, or null. A host that
/// is an IP address must be in the list literally.
///
/// The addresses to which a host name resolves are checked later, when a connection is made.
const allowed_host* find_allowed(const forward_options& forward, const host_name& host, std::uint16_t port);

/// Builds the answer 403 to a request for a host that is not allowed.
refusal refuse_destination(const host_name& host, std::uint16_t port);
/// Builds the answer 403 to a CONNECT, for a configuration that allows no tunnels.
refusal refuse_tunnel();

/// Returns the name of the limit of a host in forward mode: "host:port". A host has one spelling in these names.
std::string limit_name(const host_name& host, std::uint16_t port);

/// Returns the settings of a host in forward mode: the settings that all hosts share, and the host's own name and URL.
upstream upstream_of(const forward_options& forward, const host_name& host, std::uint16_t port);

}  // namespace canigo::gateway
