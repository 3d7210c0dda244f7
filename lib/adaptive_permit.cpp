#include "canigo/adaptive_permit.hpp"

namespace canigo {

void adaptive_permit::end(std::optional<sample_outcome> how) noexcept {
  if (!place_) return;
  const duration latency = time_between(since_, home_->now());
  detail::tuner_of(*home_).end(*home_, std::move(place_), {latency, in_flight_, sample_outcome::ok, waited_}, how);
}

}  // namespace canigo
