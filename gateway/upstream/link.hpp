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

enum class link_result : std::uint8_t {
  open,
  unreachable,
  timed_out,
  forbidden,  ///< the host name resolves only to addresses that are not public
  own,        ///< the host name resolves to the gateway itself
};

/// The objects that opening a link needs. They must outlive the link.
struct surroundings {
  net::ssl::context& trust;  ///< contains the CAs whose signatures on servers' certificates are trusted
  const own_places& own;     ///< the addresses at which the gateway listens
  name_lookup& names;
  int most_files;  ///< the file descriptor of a connection must be lower than this number
};

/// A connection to an upstream, with the buffer into which its responses are read.
struct link {
  std::unique_ptr<byte_stream> stream;
  read_buffer input;
  bool close_later = false;  ///< the connection must be closed after use, because it can't serve another request
  std::uint64_t uses = 0;    ///< the number of requests sent on this connection so far
  bool is_tls = false;       ///< whether the connection uses TLS

  std::string failure;  ///< why the connection could not be opened; empty: the reason is unknown
  /// True: the connection was not opened, because this process has no free file descriptor or memory.
  bool lacks_descriptor = false;

  // The timer of the name look-up, and the socket, while the link is being opened. Null at other times.
  net::steady_timer* resolving = nullptr;
  stream_socket* connecting = nullptr;
  bool is_called_off = false;

  /// Makes the running operation of the link end with an error. If the link is being opened, no further address is
  /// tried.
  void cancel() noexcept;
  /// Whether the link can serve another request: it is open, it uses TLS exactly if `with_tls`, and the upstream has
  /// neither closed it nor sent bytes without a request.
  bool is_ready(bool with_tls) noexcept {
    return stream && is_tls == with_tls && stream->is_open() && stream->is_quiet();
  }
  void close() noexcept {
    stream.reset();
    // Drops unread bytes: otherwise the rest of an earlier response would be taken for the next response.
    input.consume(input.size());
    uses = 0;
  }
};

/// Opens `l`: resolves the name of the upstream, checks each address, connects to an allowed address, and starts TLS if
/// `with_tls`.
///
/// The connection uses exactly the address that was checked: there is no second look-up, whose result might differ.
net::awaitable<link_result> open_link(link& l, const upstream& u, bool with_tls, const surroundings& around,
                                      duration& took);

}  // namespace canigo::gateway
