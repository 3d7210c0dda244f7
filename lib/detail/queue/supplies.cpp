#include "canigo/detail/queue/supplies.hpp"

#include <algorithm>
#include <limits>

namespace canigo::detail {

bool supplies::try_take_all(time_point now, std::uint64_t tokens) noexcept {
  for (const auto& rate : rates_) {
    if (!rate.can_take(now, tokens)) return false;
  }
  if (shared_ != nullptr && !shared_->try_take()) return false;
  take_tokens(now, tokens);
  return true;
}

void supplies::take_tokens(time_point now, std::uint64_t tokens) noexcept {
  for (auto& rate : rates_) rate.try_take(now, tokens);
}

time_point supplies::rates_ready_at(time_point now, std::uint64_t tokens) const noexcept {
  time_point ready = now;
  for (const auto& rate : rates_) ready = std::max(ready, rate.ready_at(now, tokens));
  return ready;
}

void supplies::undo(time_point now, std::uint64_t tokens) noexcept {
  refund(now, tokens);
  release(places_for(tokens));
}

void supplies::refund(time_point now, std::uint64_t tokens) noexcept {
  for (auto& rate : rates_) rate.refund(now, tokens);
}

void supplies::charge(time_point now, std::uint64_t tokens) noexcept {
  for (auto& rate : rates_) rate.charge(now, tokens);
}

std::uint64_t supplies::largest_request() const noexcept {
  std::uint64_t largest = occupancy_ == occupancy::tokens ? capacity_ : std::numeric_limits<std::uint64_t>::max();
  for (const auto& rate : rates_) largest = std::min(largest, rate.burst());
  return largest;
}

}  // namespace canigo::detail
