#pragma once

#include "canigo/time.hpp"

#include <cstdint>
#include <vector>

namespace canigo::detail {

/// Limits the restarts of a pool: at most a fixed number in any span of a fixed length.
///
/// Allocates: in the constructor, 8 bytes per restart.
class pool_restarts {
 public:
  pool_restarts(std::uint32_t limit, duration within);

  /// Records a restart at `now`. Returns false, and records nothing, if the restart would exceed the limit.
  bool note(time_point now) noexcept;

 private:
  const std::uint32_t limit_;
  const duration within_;
  std::vector<time_point> times_;  // the times of restarts within the last `within_`
};

}  // namespace canigo::detail
