#pragma once

#include "canigo/http/headers.hpp"
#include "canigo/time.hpp"

#include <cstdint>
#include <string>

namespace canigo::http {

/// How long each part of an exchange took. All times but `queued` count from the start of the transfer, and include
/// the hops of redirects.
///
/// A phase that was not needed, such as connecting on a reused connection, is as long as the one before it.
struct timing {
  duration queued{};      ///< waited for a place among the client's connections
  duration resolved{};    ///< until the name was known
  duration connected{};   ///< until TCP was connected
  duration secured{};     ///< until TLS was set up; zero without TLS
  duration first_byte{};  ///< until the first byte of the response was there
  duration total{};       ///< until the whole response was there
};

/// The response of a server. After an error it holds the part that was there when the exchange ended.
struct response {
  int status = 0;         ///< 0: none came
  http::headers headers;  ///< of the last hop, trailers included
  std::string body;
  std::uint64_t body_size = 0;  ///< bytes of the body, also where it was not kept
  std::string url;              ///< the source of the response, after redirects
  std::string redirect;         ///< the target of a redirect that was not followed, absolute; empty: none
  int redirects = 0;
  int resends = 0;      ///< times that it was sent again after a broken connection: at most 1, see client
  bool reused = false;  ///< the request was sent over a connection that was there before
  http::timing timing;
  /// After an error: the host, and the cause if a code does not tell it. The cause is, for example, a timeout that
  /// passed and the part that was still missing, or a bound that was exceeded. It may also be a fault of an encoded
  /// body or certificate, or the answer of a proxy. The text names an option with its value, and of the URL only the
  /// host. Empty after errc::stopped, invalid_argument and not_enough_memory.
  std::string problem;
};

}  // namespace canigo::http
