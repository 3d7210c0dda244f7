#pragma once

#include "canigo/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// A request that waits or runs, as the admin page shows it. Its texts are short, whatever the client sent.
struct request_view {
  std::uint64_t number = 0;  ///< see request_list
  bool waits = false;
  std::string_view waits_for;  ///< outside of the queue: "shared", "tunnels" or "retry"; empty: it does not wait there
  time_point waits_until;      ///< the end of that wait; min(): unknown
  std::string id, tenant, priority, upstream, target, method, host, path;
  time_point since;
  int attempts = 0;
  std::optional<std::uint64_t> tokens;  ///< the tokens that it asks for
  int status = 0;                       ///< the status of the response; 0: there is none yet
  std::optional<duration> first_byte;   ///< from the arrival of the request to the first byte of the response
  std::uint64_t bytes_in = 0;           ///< bytes of its body so far
  std::uint64_t bytes_out = 0;          ///< bytes of the response's body so far
};

}  // namespace canigo::gateway
