#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// What is known of one request at its end: for the access log, the counters, and the fields of its response.
struct call_record {
  std::chrono::system_clock::time_point time;
  time_point since;
  std::string id;
  std::string method;
  std::string host;
  std::string path;  ///< without the query
  std::string_view tenant;
  std::string_view priority;  ///< the name of its class
  std::string_view upstream;
  int priority_index = 0;
  std::optional<std::size_t> tenant_index;
  std::optional<std::size_t> upstream_index;
  int status = 0;          ///< 0: the client left without an answer
  std::string_view error;  ///< of X-Canigo-Error; empty: none
  std::string_view bound_by;
  int attempts = 0;
  duration waited{};
  duration connect{};
  std::optional<duration> first_byte;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::optional<std::uint64_t> tokens_asked;  ///< of an upstream that counts tokens
  std::optional<std::uint64_t> tokens_used;   ///< if the upstream has told
};

}  // namespace canigo::gateway
