#include "gateway/policy/own_places.hpp"

#include <algorithm>
#include <sys/socket.h>
#include <unistd.h>

namespace canigo::gateway {

net::ip::tcp::endpoint own_places::plain(const net::ip::tcp::endpoint& e) {
  const net::ip::address& a = e.address();
  if (!a.is_v6() || !a.to_v6().is_v4_mapped()) return e;
  return {net::ip::make_address_v4(net::ip::v4_mapped, a.to_v6()), e.port()};
}

bool own_places::contains(const net::ip::tcp::endpoint& destination) const {
  const net::ip::tcp::endpoint to = plain(destination);
  return std::ranges::any_of(listeners_, [&](const net::ip::tcp::endpoint& own) {
    if (own.port() != to.port()) return false;
    if (own.address() == to.address()) return true;
    // A listener at the unspecified address accepts connections at every address of this machine. A connection to the
    // unspecified address goes to this machine. If one of the two addresses is unspecified, a connection to this
    // machine reaches the listener.
    const bool is_any = own.address().is_unspecified() || to.address().is_unspecified();
    return is_any && (to.address().is_unspecified() || is_local_(to.address()));
  });
}

bool own_places::is_of_this_machine(const net::ip::address& address) {
  net::ip::tcp::endpoint at{address, 0};
  const int probe = ::socket(at.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  // If no socket can be opened for the check, the address counts as one of this machine: a wrong refusal is safer than
  // a loop.
  if (probe < 0) return true;
  const bool is_own = ::bind(probe, at.data(), static_cast<socklen_t>(at.size())) == 0;
  ::close(probe);
  return is_own;
}

}  // namespace canigo::gateway
