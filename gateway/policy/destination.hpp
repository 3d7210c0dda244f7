#pragma once

#include "gateway/config/config.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/wire/host_name.hpp"

#include <cstdint>
#include <string>

namespace canigo::gateway {

/// The entry of `forward.allow` that lets forward mode lead to this host and port, by its name; null if there is none.
/// An address that is written out is allowed only if it is in the list as it is.
///
/// The addresses of a name are judged where they are used.
const allowed_host* find_allowed(const forward_options& forward, const host_name& host, std::uint16_t port);

/// 403 for a host that is not allowed.
refusal refuse_destination(const host_name& host, std::uint16_t port);
/// The same of any tunnel, where the configuration allows none.
refusal refuse_tunnel();

/// The name of the limit of a host of forward mode: "host:port", the same for each spelling of a host.
std::string limit_name(const host_name& host, std::uint16_t port);

/// The settings of a host of forward mode: those of each, with its own name and URL.
upstream upstream_of(const forward_options& forward, const host_name& host, std::uint16_t port);

}  // namespace canigo::gateway
