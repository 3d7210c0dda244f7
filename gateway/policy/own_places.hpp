#pragma once

#include "canigo/net.hpp"

#include <asio/ip/tcp.hpp>

#include <functional>
#include <utility>
#include <vector>

namespace canigo::gateway {

/// The addresses at which the gateway itself listens. No request may lead there: it would come back for ever.
///
/// Threads: any, after the last add().
class own_places {
 public:
  /// `is_local`: whether an address is one of this machine's; by default the kernel is asked.
  explicit own_places(std::function<bool(const net::ip::address&)> is_local = is_of_this_machine)
      : is_local_{std::move(is_local)} {}

  void add(const net::ip::tcp::endpoint& listener) { listeners_.push_back(plain(listener)); }

  /// Whether a connection to `destination` would reach one of the listeners. An IPv4 address that is mapped into IPv6
  /// is that address, and 0.0.0.0 and :: are this machine.
  bool contains(const net::ip::tcp::endpoint& destination) const;

  /// Whether a socket could be bound to the address.
  static bool is_of_this_machine(const net::ip::address& address);

 private:
  static net::ip::tcp::endpoint plain(const net::ip::tcp::endpoint& e);

  std::function<bool(const net::ip::address&)> is_local_;
  std::vector<net::ip::tcp::endpoint> listeners_;
};

}  // namespace canigo::gateway
