#include "canigo/adaptive_limit.hpp"
#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/admission/permit_grant.hpp"
#include "canigo/detail/around/tuner.hpp"

#include <optional>
#include <utility>

namespace canigo {

adaptive_permit::adaptive_permit(detail::admission& home, permit place, time_point asked_at) noexcept
    : home_{&home}, place_{std::move(place)}, since_{home.now()}, in_flight_{detail::tuner_of(home).begin()} {
  if (asked_at != time_point{}) waited_ = since_ - asked_at;
}

void adaptive_permit::begin() noexcept {
  if (home_ != nullptr) since_ = home_->now();
}

void adaptive_permit::end(std::optional<sample_outcome> how) noexcept {
  if (!place_) return;
  const duration latency = time_between(since_, home_->now());
  detail::tuner_of(*home_).end(*home_, std::move(place_), {latency, in_flight_, sample_outcome::ok, waited_}, how);
}

namespace detail {

adaptive_permit adaptive_waiter::granted(admission& home, const request& r) noexcept {
  return adaptive_permit{home, permit_waiter::granted(home, r)};
}

adaptive_permit adaptive_waiter::granted(admission& home, int) noexcept {
  return adaptive_permit{home, permit_waiter::granted(home)};
}

adaptive_waiter::results adaptive_waiter::take_results() noexcept {
  auto [error, place] = permit_waiter::take_results();
  if (error) return {error, adaptive_permit{}};
  return {error, adaptive_permit{*home_, std::move(place), since()}};
}

}  // namespace detail

}  // namespace canigo
