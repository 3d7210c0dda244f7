#pragma once

#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"
#include "gateway/policy/own_places.hpp"
#include "gateway/upstream/name_lookup.hpp"
#include "gateway/wire/byte_stream.hpp"
#include "gateway/wire/read_buffer.hpp"

#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace canigo::gateway {

/// How opening a link ended.
enum class link_result : std::uint8_t {
  open,
  unreachable,
  timed_out,
  forbidden,  ///< the name leads to addresses that are not public
  own,        ///< the name leads to the gateway itself
};

/// The objects of the process that opening a link needs. They outlive the link.
struct surroundings {
  net::ssl::context& trust;  ///< the authorities of servers' certificates
  const own_places& own;     ///< where the gateway listens
  name_lookup& names;
  int most_files;  ///< a connection's descriptor is below this one
};

/// A connection to an upstream, with the buffer that its responses are read into.
struct link {
  std::unique_ptr<byte_stream> stream;
  read_buffer input;
  bool close_later = false;  ///< to be closed, because it can't serve another request
  std::uint64_t uses = 0;    ///< requests that were sent on this connection
  bool is_tls = false;       ///< the connection is secured

  std::string failure;            ///< why it could not be opened; empty: unknown
  bool lacks_descriptor = false;  ///< not opened, because this process has no descriptor or no memory left

  // In use while the link is being opened.
  net::steady_timer* resolving = nullptr;
  stream_socket* connecting = nullptr;
  bool is_called_off = false;

  /// Ends the operation that is under way with an error. A link that is being opened tries no further address.
  void cancel() noexcept;
  /// Whether the link can take another request: it is open, it has TLS if that is wanted, and the upstream has neither
  /// closed it nor sent a byte unasked.
  bool is_ready(bool with_tls) noexcept {
    return stream && is_tls == with_tls && stream->is_open() && stream->is_quiet();
  }
  void close() noexcept {
    stream.reset();
    input.consume(input.size());  // otherwise the rest of one response would begin another one
    uses = 0;
  }
};

/// Resolves the name of the upstream, judges each address, connects to one that is allowed, and adds TLS if that is
/// wanted.
///
/// The address that was judged is the one that is used: there is no second look-up.
net::awaitable<link_result> open_link(link& l, const upstream& u, bool with_tls, const surroundings& around,
                                      duration& took);

}  // namespace canigo::gateway
