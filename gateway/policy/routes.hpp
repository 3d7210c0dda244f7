#pragma once

#include "gateway/config/config.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// Finds the upstream for a request by the prefix of its path.
class route_table {
 public:
  /// `upstreams` must outlive this object.
  explicit route_table(const std::vector<upstream>& upstreams);

  /// Returns the index of the upstream with the longest matching prefix; nothing if none matches. A prefix matches a
  /// path that is equal to it, or that continues with a '/' after it. So "/openai" matches "/openai" and "/openai/x",
  /// but not "/openaix".
  ///
  /// `target`: a path, with a query if there is one. Bytes are compared literally: "/%6fpenai" is another path.
  /// Allocates: never.
  std::optional<std::size_t> find(std::string_view target) const noexcept;

 private:
  struct route {
    std::string_view prefix;
    std::size_t upstream;
  };
  std::vector<route> routes_;  // sorted by the length of the prefix; the longest prefix comes first
};

/// Returns the client's path without the prefix of the upstream's route.
std::string_view behind_prefix(const upstream& u, std::string_view path) noexcept;

/// Builds the target for a request to an upstream: the path in the upstream's URL, then the client's path without the
/// route's prefix.
std::string target_for(const upstream& u, std::string_view target);
/// If the result of target_for() is a part of `target`, returns this part. Returns nothing if target_for() must build a
/// new text.
std::optional<std::string_view> unchanged_target(const upstream& u, std::string_view target);

}  // namespace canigo::gateway
