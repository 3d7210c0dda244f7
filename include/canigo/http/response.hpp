#pragma once

#include "canigo/http/headers.hpp"
#include "canigo/time.hpp"

#include <cstdint>
#include <string>

namespace canigo::http {

/// How long each part of an exchange took. All times except `queued` are measured from the start of the transfer, and
/// include redirects.
///
/// If a phase was skipped, such as connecting on a reused connection, its time equals that of the previous phase.
struct timing {
  duration queued{};      ///< time of waiting for one of the client's connections
  duration resolved{};    ///< time until the host name was resolved
  duration connected{};   ///< time until the TCP connection was made
  duration secured{};     ///< time until the TLS handshake was complete; zero without TLS
  duration first_byte{};  ///< time until the first byte of the response arrived
  duration total{};       ///< time until the whole response had arrived
};

/// The response of a server. After an error it holds the part of the response that arrived before the error.
struct response {
  int status = 0;         ///< the HTTP status; 0: no response arrived
  http::headers headers;  ///< the header fields of the last response, after redirects; trailers included
  std::string body;
  std::uint64_t body_size = 0;  ///< size of the body in bytes, even if the body was not kept
  std::string url;              ///< the URL of the response, after redirects
  std::string redirect;         ///< the absolute URL of a redirect that was not followed; empty: none
  int redirects = 0;
  int resends = 0;      ///< how often the request was sent again after a broken connection; at most 1, see http::client
  bool reused = false;  ///< whether the request was sent over a reused connection
  http::timing timing;
  /// Describes an error: the host, and the cause if the error code does not tell it. Examples of a cause are a timeout
  /// with the part that was missing, an exceeded maximum, a defect of an encoded body or certificate, or the answer of
  /// a proxy. If an option caused the error, the text contains the option and its value. Of the URL it contains only
  /// the host. Empty after errc::stopped, invalid_argument and not_enough_memory.
  std::string problem;
};

}  // namespace canigo::http
