#pragma once

#include "gateway/config/config.hpp"
#include "gateway/policy/host_name.hpp"
#include "gateway/policy/refusal.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace canigo::gateway {

/// Whether forward mode may lead to this host and port, by its name: "destination_forbidden" if not. An address that
/// is written out is allowed only if it is in the list as it is.
///
/// The addresses of a name are judged where they are used.
std::optional<refusal> judge_destination(const forward_options& forward, const host_name& host, std::uint16_t port);

/// The name of the limit of a host of forward mode: "host:port", the same for each spelling of a host.
std::string limit_name(const host_name& host, std::uint16_t port);

}  // namespace canigo::gateway
