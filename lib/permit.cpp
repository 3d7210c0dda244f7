#include "canigo/permit.hpp"

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/flow_places.hpp"
#include "canigo/error.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace canigo {

std::uint64_t permit::held() const noexcept { return detail::flow_places::places(places_); }

void permit::give_back() noexcept { std::exchange(home_, nullptr)->release(std::exchange(places_, 0), kept_); }

permit permit::split(std::uint64_t places) {
  if (places < 1 || places > held()) {
    detail::throw_invalid("permit.split: places", places, "1 to held(), which is " + std::to_string(held()));
  }
  if (places == held()) return std::move(*this);
  // Only a permit of a semaphore has several slots. Each of these slots has one token, until settle() changes the
  // number of tokens.
  const std::uint64_t tokens = std::min(kept_, places);
  places_ -= places;
  kept_ -= tokens;
  return permit{*home_, detail::flow_places::join(places, detail::flow_places::flow(places_)), tokens};
}

std::size_t permit::alternative() const noexcept {
  return home_ != nullptr ? home_->alternative_of(kept_) : no_alternative;
}

std::string_view permit::alternative_name() const noexcept {
  return home_ != nullptr ? home_->name_of_alternative(alternative()) : std::string_view{};
}

void permit::move_to(std::size_t alternative) {
  assert(home_ != nullptr && "permit::move_to: nothing is held");
  if (home_ == nullptr) return;
  const std::size_t many = home_->alternatives_count();
  if (alternative >= many) {
    const std::string allowed = many == 0 ? "none" : "less than " + std::to_string(many);
    detail::throw_invalid("permit.move_to: alternative", alternative, allowed);
  }
  home_->move_to_alternative(kept_, alternative);
}

void permit::settle(std::uint64_t used) noexcept {
  assert(home_ != nullptr && "permit::settle: nothing is held");
  if (home_ == nullptr) return;
  const std::uint32_t flow = detail::flow_places::flow(places_);
  if (home_->has_records()) return home_->settle_unit(flow, kept_, 0, used);
  if (used != kept_) home_->settle(flow, std::exchange(kept_, used), used);
}

void permit::settle(unit_key unit, std::uint64_t used) {
  assert(home_ != nullptr && "permit::settle: nothing is held");
  if (home_ == nullptr) return;
  const std::size_t number = home_->find_unit(unit, "permit.settle: unit");
  if (number == 0) return settle(used);
  home_->settle_unit(detail::flow_places::flow(places_), kept_, number, used);
}

}  // namespace canigo
