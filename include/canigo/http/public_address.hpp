#pragma once

#include "canigo/net.hpp"

#include <asio/ip/address.hpp>

namespace canigo::http {

/// Whether an address belongs to the public Internet. Use it as client_options::allow_address if URLs come from
/// untrusted users.
///
/// It returns false for private networks, loopback, link-local, carrier NAT, documentation, benchmark, multicast and
/// all reserved addresses. If an IPv6 address contains an IPv4 address, that IPv4 address decides: mapped
/// (::ffff:0:0/96), NAT64 (64:ff9b::/96) and 6to4 (2002::/16).
///
/// Source: IANA's registries of special-purpose addresses, RFC 6890.
/// Threads: any.
bool is_public(const net::ip::address& address) noexcept;

}  // namespace canigo::http
