#pragma once

#include "gateway/config/config.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// Finds the upstream that a path leads to.
class route_table {
 public:
  /// The upstreams must outlive it.
  explicit route_table(const std::vector<upstream>& upstreams);

  /// The upstream with the longest prefix that matches: the path is the prefix, or goes on behind it with a '/'. So
  /// "/openai" leads "/openai/x" and "/openai", and not "/openaix".
  ///
  /// `target`: a path, and a query if there is one. Bytes are compared as they are: "/%6fpenai" is another path.
  /// Allocates: never.
  std::optional<std::size_t> find(std::string_view target) const noexcept;

 private:
  struct route {
    std::string_view prefix;
    std::size_t upstream;
  };
  std::vector<route> routes_;  // the longest prefix first
};

/// The client's path without the prefix of the upstream.
std::string_view behind_prefix(const upstream& u, std::string_view path) noexcept;

/// The target for an upstream: the upstream's own path, and then the client's without the prefix, byte for byte.
std::string target_for(const upstream& u, std::string_view target);
/// The same as a part of `target`; nothing if it is none.
std::optional<std::string_view> unchanged_target(const upstream& u, std::string_view target);

}  // namespace canigo::gateway
