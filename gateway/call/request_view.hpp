#pragma once

#include "canigo/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// A waiting or running request as the admin page shows it. Long texts from the client are shortened.
struct request_view {
  std::uint64_t number = 0;  ///< the request's number in request_list
  bool waits = false;
  /// The reason why the request waits outside of its upstream's queue: "shared", "tunnels", "retry", "budget of
  /// tenant", "budget of upstream" or "budget of target". Empty: it does not wait outside of the queue.
  std::string_view waits_for;
  time_point waits_until;  ///< when the wait outside of the queue ends; min(): unknown
  std::string id, tenant, priority, upstream, target, method, host, path;
  time_point since;
  int attempts = 0;
  std::optional<std::uint64_t> tokens;  ///< the tokens for which the request has asked the limits
  int status = 0;                       ///< the status of the response; 0: no response yet
  std::optional<duration> first_byte;   ///< the time from the request's arrival to the first byte of the response
  std::uint64_t bytes_in = 0;           ///< the number of bytes of the request's body received so far
  std::uint64_t bytes_out = 0;          ///< the number of bytes of the response's body sent so far
};

}  // namespace canigo::gateway
