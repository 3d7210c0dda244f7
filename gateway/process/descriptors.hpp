#pragma once

#include "gateway/config/config.hpp"

#include <cstddef>
#include <limits>
#include <sys/resource.h>

namespace canigo::gateway {

/// Raises the soft limit of file descriptors as far as the hard limit allows. The soft limit is often 1,024, but each
/// request needs sockets while it waits or runs. Returns how many files the process may then open. Throws
/// std::runtime_error if this number is too small for `loops` event loops and the listeners of `c`.
rlim_t raise_descriptor_limit(const config& c, std::size_t loops);

/// Returns the lowest free file descriptor, which the kernel will give to the next file; -1 if none is free.
int next_descriptor() noexcept;

/// How the file descriptors of the process are divided. Clients may use about three quarters of them. Connections to
/// upstreams may use all but the last few. The last few are kept so that the admin interface can answer, and the
/// configuration can be read.
struct descriptor_shares {
  std::size_t clients = std::numeric_limits<std::size_t>::max();  ///< how many clients may be connected
  /// the lowest descriptor that only the admin interface and files may use
  int first_reserved = std::numeric_limits<int>::max();
};

/// Divides the descriptors of a process that may open `files` files; see descriptor_shares. The descriptors that are
/// already open at this call can't be used for clients.
descriptor_shares divide_descriptors(rlim_t files) noexcept;

}  // namespace canigo::gateway
