#pragma once

#include "canigo/time.hpp"

#include <cstdint>
#include <vector>

namespace canigo::detail {

/// The restarts that a pool may still have: a limited number in any span of one length.
///
/// Allocates: in the constructor, 8 bytes per restart.
class pool_restarts {
 public:
  pool_restarts(std::uint32_t limit, duration within);

  /// Notes a restart at `now`. False: it would be one too many, and is not noted.
  bool note(time_point now) noexcept;

 private:
  const std::uint32_t limit_;
  const duration within_;
  std::vector<time_point> times_;  // a restart counts until it is `within_` old
};

}  // namespace canigo::detail
