#include "canigo/detail/pool/pool_restarts.hpp"

namespace canigo::detail {

pool_restarts::pool_restarts(std::uint32_t limit, duration within) : limit_{limit}, within_{within} {
  times_.reserve(limit);
}

bool pool_restarts::note(time_point now) noexcept {
  const time_point since = saturating_add(now, -within_);
  std::erase_if(times_, [since](time_point t) { return t <= since; });
  if (times_.size() >= limit_) return false;
  times_.push_back(now);
  return true;
}

}  // namespace canigo::detail
