#pragma once

#include "gateway/config/config.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// Finds the upstream whose route matches a path.
class route_table {
 public:
  /// `upstreams` must outlive this object.
  explicit route_table(const std::vector<upstream>& upstreams);

  /// Returns the upstream with the longest matching prefix. A prefix matches the same path, and a path that continues
  /// with a '/' after the prefix. So "/openai" matches "/openai" and "/openai/x", but not "/openaix".
  ///
  /// `target`: a path, with a query if there is one. Bytes are compared literally: "/%6fpenai" is another path.
  /// Allocates: never.
  std::optional<std::size_t> find(std::string_view target) const noexcept;

 private:
  struct route {
    std::string_view prefix;
    std::size_t upstream;
  };
  std::vector<route> routes_;  // sorted by the length of the prefix, the longest first
};

/// Returns the client's path without the prefix of the upstream's route.
std::string_view behind_prefix(const upstream& u, std::string_view path) noexcept;

/// Builds the target for an upstream: the upstream's own path, then the client's path without the prefix, unchanged.
std::string target_for(const upstream& u, std::string_view target);
/// Returns the result of target_for() as a part of `target`; nothing if target_for() would build a new text.
std::optional<std::string_view> unchanged_target(const upstream& u, std::string_view target);

}  // namespace canigo::gateway
