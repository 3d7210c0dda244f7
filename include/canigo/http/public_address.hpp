#pragma once

#include "canigo/net.hpp"

#include <asio/ip/address.hpp>

namespace canigo::http {

/// Whether an address belongs to the public Internet: for client_options::allow_address, if URLs come from strangers.
///
/// It is false for addresses of a private network, the loopback, a link, a carrier's NAT, documentation, benchmarks,
/// multicast, and for all that are reserved. An IPv6 address that carries an IPv4 address is judged by that one: those
/// mapped (::ffff:0:0/96), of NAT64 (64:ff9b::/96) and of 6to4 (2002::/16).
///
/// Source: IANA's registries of special-purpose addresses, RFC 6890.
/// Threads: any.
bool is_public(const net::ip::address& address) noexcept;

}  // namespace canigo::http
