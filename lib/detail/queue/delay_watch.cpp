#include "canigo/detail/queue/delay_watch.hpp"

#include <algorithm>

namespace canigo::detail {

time_point delay_rule::shed_at(time_point met_at, time_point since) const noexcept {
  const time_point too_long = saturating_add(saturating_add(since, options_.target), options_.target);
  return std::max(overloaded_at(met_at), saturating_add(too_long, duration{1}));
}

}  // namespace canigo::detail
