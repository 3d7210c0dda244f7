#pragma once

#include "canigo/http/headers.hpp"
#include "canigo/time.hpp"

#include <cstdint>
#include <string>

namespace canigo::http {

/// How long an exchange took, and where. All but `queued` count from when the transfer began, and add up the hops of
/// redirects; a phase that was not needed, such as connecting when a connection was reused, is as long as the one
/// before.
struct timing {
  duration queued{};      ///< waited for a place among the client's connections
  duration resolved{};    ///< the name is known
  duration connected{};   ///< TCP is connected
  duration secured{};     ///< TLS is set up; zero without TLS
  duration first_byte{};  ///< the first byte of the response is there
  duration total{};       ///< all of it is
};

/// What came back. With an error it holds what was there when the exchange ended.
struct response {
  int status = 0;         ///< 0: none came
  http::headers headers;  ///< of the last hop, trailers included
  std::string body;
  std::uint64_t body_size = 0;  ///< bytes of the body, also where it was not kept
  std::string url;              ///< where it came from after redirects
  std::string redirect;         ///< where one that was not followed leads, absolute; empty: nowhere
  int redirects = 0;
  int resends = 0;      ///< times that it was sent again, as a connection broke: at most 1, see client
  bool reused = false;  ///< it was sent, and over a connection that was there already
  http::timing timing;
};

}  // namespace canigo::http
