#include "canigo/permit.hpp"

#include "canigo/detail/admission/admission.hpp"
#include "canigo/error.hpp"

#include <cassert>
#include <string>

namespace canigo {

void permit::give_back() noexcept { std::exchange(home_, nullptr)->release(std::exchange(places_, 0)); }

permit permit::split(std::uint64_t places) {
  if (places < 1 || places > places_) {
    detail::throw_invalid("permit.split: places", places, "1 to held(), which is " + std::to_string(places_));
  }
  if (places == places_) return std::move(*this);
  // More than one place is a semaphore's, and there a place is a token.
  places_ -= places;
  tokens_ -= places;
  return permit{*home_, places, places};
}

void permit::settle(std::uint64_t used) noexcept {
  assert(home_ != nullptr && "permit::settle: nothing is held");
  if (home_ == nullptr || used == tokens_) return;
  home_->change_supplies([&](detail::supplies& s, time_point now) {
    if (used > tokens_) {
      s.charge(now, used - tokens_);
    } else {
      s.refund(now, tokens_ - used);
    }
  });
  tokens_ = used;
}

}  // namespace canigo
