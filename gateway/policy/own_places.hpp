#pragma once

#include "canigo/net.hpp"

#include <asio/ip/tcp.hpp>

#include <functional>
#include <utility>
#include <vector>

namespace canigo::gateway {

/// The addresses at which the gateway itself listens. A request whose destination is one of them is refused, because it
/// would return to the gateway for ever.
///
/// Threads: any, after the last add().
class own_places {
 public:
  /// `is_local`: tells whether an address belongs to this machine; the default asks the kernel.
  explicit own_places(std::function<bool(const net::ip::address&)> is_local = is_of_this_machine)
      : is_local_{std::move(is_local)} {}

  void add(const net::ip::tcp::endpoint& listener) { listeners_.push_back(plain(listener)); }

  /// Whether a connection to `destination` would reach one of the gateway's listeners. An IPv4-mapped IPv6 address
  /// counts as the IPv4 address. 0.0.0.0 and :: count as this machine.
  bool contains(const net::ip::tcp::endpoint& destination) const;

  /// Whether a socket of this machine can be bound to the address.
  static bool is_of_this_machine(const net::ip::address& address);

 private:
  static net::ip::tcp::endpoint plain(const net::ip::tcp::endpoint& e);

  std::function<bool(const net::ip::address&)> is_local_;
  std::vector<net::ip::tcp::endpoint> listeners_;
};

}  // namespace canigo::gateway
