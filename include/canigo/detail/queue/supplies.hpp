#pragma once

#include "canigo/detail/queue/shared_places.hpp"
#include "canigo/time.hpp"
#include "canigo/token_bucket.hpp"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace canigo::detail {

/// Everything that a request needs at once: tokens of every rate, room under the cap on concurrency, and a place of
/// those that are shared with others, where some are.
///
/// A request is admitted by all of them in one step, or takes nothing from any. Pure values, but for the shared places.
class supplies {
 public:
  /// What a request occupies under the cap: one place, or as many as it asks for tokens. `idle`: none, but all must be
  /// free.
  enum class occupancy { none, one, tokens, idle };

  explicit supplies(std::vector<token_bucket> rates) : supplies{std::move(rates), 0, occupancy::none} {}
  supplies(std::vector<token_bucket> rates, std::uint64_t capacity, occupancy o,
           std::shared_ptr<shared_places> shared = nullptr)
      : rates_{std::move(rates)},
        capacity_{capacity},
        occupancy_{o},
        is_one_rate_alone_{o == occupancy::none && rates_.size() == 1},
        is_one_rate_{rates_.size() == 1 && shared == nullptr},
        is_more_{rates_.size() > 1 || shared != nullptr},
        shared_{std::move(shared)} {}

  /// Takes what a request for `tokens` needs from all, or nothing from any.
  [[gnu::always_inline]] bool try_take(time_point now, std::uint64_t tokens) noexcept {
    if (is_one_rate_alone_) return rates_.front().try_take(now, tokens);
    const std::uint64_t places = places_for(tokens);
    if (occupancy_ != occupancy::none && !has_room_for(places)) return false;
    if (is_one_rate_) {
      if (!rates_.front().try_take(now, tokens)) return false;
    } else if (is_more_ && !try_take_all(now, tokens)) {
      return false;
    }
    occupied_ += places;
    return true;
  }
  /// Takes what a request for `tokens` needs at ready_at(), or later, where a shared place has been taken for it.
  void take(time_point now, std::uint64_t tokens) noexcept {
    take_tokens(now, tokens);
    occupied_ += places_for(tokens);
  }

  /// When a request for `tokens` could be admitted if nobody else came; max if that takes a release. Shared places
  /// aside: who shares them may come at any moment.
  time_point ready_at(time_point now, std::uint64_t tokens) const noexcept {
    return has_room_for(places_for(tokens)) ? rates_ready_at(now, tokens) : time_point::max();
  }
  /// The same for the rates alone.
  time_point rates_ready_at(time_point now, std::uint64_t tokens) const noexcept;

  /// Takes back a grant that was never used.
  void undo(time_point now, std::uint64_t tokens) noexcept;
  /// Occupies places that nobody waited for; false once they are closed.
  bool try_occupy(std::uint64_t places) noexcept {
    if (is_closed_) return false;
    occupied_ += places;
    return true;
  }
  void close() noexcept { is_closed_ = true; }
  /// Frees places.
  void release(std::uint64_t places) noexcept { occupied_ -= places; }

  /// What an admitted request for `tokens` occupies.
  std::uint64_t places_for(std::uint64_t tokens) const noexcept {
    return occupancy_ == occupancy::tokens ? tokens : occupancy_ == occupancy::one ? 1 : 0;
  }
  bool has_room_for(std::uint64_t places) const noexcept {
    if (occupancy_ == occupancy::idle) return occupied_ == 0;
    return places <= capacity_ && occupied_ <= capacity_ - places;
  }

  void refund(time_point now, std::uint64_t tokens) noexcept;
  void charge(time_point now, std::uint64_t tokens) noexcept;

  occupancy occupies() const noexcept { return occupancy_; }
  bool has_rates() const noexcept { return !rates_.empty(); }
  std::vector<token_bucket>& rates() noexcept { return rates_; }
  const std::vector<token_bucket>& rates() const noexcept { return rates_; }
  std::uint64_t capacity() const noexcept { return capacity_; }
  void set_capacity(std::uint64_t capacity) noexcept { capacity_ = capacity; }
  std::uint64_t occupied() const noexcept { return occupied_; }
  /// The places that all of these requests need one of; or nullptr.
  const std::shared_ptr<shared_places>& shared() const noexcept { return shared_; }
  /// The most tokens that one request can ever get.
  std::uint64_t largest_request() const noexcept;

 private:
  bool try_take_all(time_point now, std::uint64_t tokens) noexcept;
  void take_tokens(time_point now, std::uint64_t tokens) noexcept;

  std::vector<token_bucket> rates_;
  std::uint64_t capacity_ = 0;
  std::uint64_t occupied_ = 0;
  occupancy occupancy_ = occupancy::none;
  bool is_one_rate_alone_;  // and nothing is occupied: what a scheduler has
  bool is_one_rate_;        // and no place is shared
  bool is_more_;            // than that
  bool is_closed_ = false;
  std::shared_ptr<shared_places> shared_;
};

}  // namespace canigo::detail
