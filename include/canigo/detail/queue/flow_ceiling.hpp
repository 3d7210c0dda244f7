#pragma once

#include "canigo/time.hpp"
#include "canigo/token_bucket.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace canigo::detail {

/// The most that a flow may have, however much of its limit is free: rates, and a cap on its places.
///
/// Threads: none; its owner holds a lock.
class flow_ceiling {
 public:
  static constexpr std::uint64_t no_cap = std::numeric_limits<std::uint64_t>::max();

  flow_ceiling() = default;
  flow_ceiling(std::vector<token_bucket> rates, std::uint64_t cap) noexcept : rates_{std::move(rates)}, cap_{cap} {}

  /// Whether it binds anybody ever.
  bool is_any() const noexcept { return cap_ != no_cap || !rates_.empty(); }

  bool has_room_for(std::uint64_t places) const noexcept { return places <= cap_ && occupied_ <= cap_ - places; }
  /// When the rates allow so many tokens.
  time_point rates_ready_at(time_point now, std::uint64_t tokens) const noexcept {
    time_point ready = now;
    for (const token_bucket& b : rates_) ready = std::max(ready, b.ready_at(now, tokens));
    return ready;
  }
  /// When it allows so many tokens and places; max if that takes a release.
  time_point ready_at(time_point now, std::uint64_t tokens, std::uint64_t places) const noexcept {
    return has_room_for(places) ? rates_ready_at(now, tokens) : time_point::max();
  }
  /// The most tokens that the rates ever allow at once.
  std::uint64_t largest_request() const noexcept {
    std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
    for (const token_bucket& b : rates_) largest = std::min(largest, b.burst());
    return largest;
  }

  /// Takes what it allows at `now`.
  void take(time_point now, std::uint64_t tokens, std::uint64_t places) noexcept {
    for (token_bucket& b : rates_) (void)b.try_take(now, tokens);
    occupied_ += places;
  }
  void release(std::uint64_t places) noexcept { occupied_ -= places; }
  void refund(time_point now, std::uint64_t tokens) noexcept {
    for (token_bucket& b : rates_) b.refund(now, tokens);
  }
  void charge(time_point now, std::uint64_t tokens) noexcept {
    for (token_bucket& b : rates_) b.charge(now, tokens);
  }

  std::vector<token_bucket>& rates() noexcept { return rates_; }
  const std::vector<token_bucket>& rates() const noexcept { return rates_; }
  std::uint64_t cap() const noexcept { return cap_; }
  void set_cap(std::uint64_t cap) noexcept { cap_ = cap; }
  std::uint64_t occupied() const noexcept { return occupied_; }

 private:
  std::vector<token_bucket> rates_;
  std::uint64_t cap_ = no_cap;
  std::uint64_t occupied_ = 0;
};

}  // namespace canigo::detail
