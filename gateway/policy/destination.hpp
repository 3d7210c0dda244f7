#pragma once

#include "gateway/config/config.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/wire/host_name.hpp"

#include <cstdint>
#include <string>

namespace canigo::gateway {

/// The entry of `forward.allow` that lets forward mode lead to this host and port; null: there is none. A host that is
/// an address must be in the list as it is.
///
/// The addresses that a name leads to are judged when they are used.
const allowed_host* find_allowed(const forward_options& forward, const host_name& host, std::uint16_t port);

/// 403 for a host that is not allowed.
refusal refuse_destination(const host_name& host, std::uint16_t port);
/// 403 for any tunnel, if the configuration allows none.
refusal refuse_tunnel();

/// The name of the limit of a host of forward mode: "host:port", with one spelling for each host.
std::string limit_name(const host_name& host, std::uint16_t port);

/// The settings of a host of forward mode: those that all hosts share, with the host's own name and URL.
upstream upstream_of(const forward_options& forward, const host_name& host, std::uint16_t port);

}  // namespace canigo::gateway
