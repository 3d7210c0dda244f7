#pragma once

#include "canigo/algorithms/token_bucket.hpp"
#include "canigo/detail/queue/alternatives.hpp"
#include "canigo/detail/queue/rate_set.hpp"
#include "canigo/detail/queue/shared_places.hpp"
#include "canigo/detail/queue/units.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace canigo::detail {

/// Everything that a request needs at once: tokens of every rate, room under the cap on concurrency, and a shared place
/// if places are shared with other limits. If rates have several units, a request wants an amount of each.
///
/// A request is admitted by all of them in one step, or takes nothing from any. Pure values, except the shared places.
class supplies {
 public:
  /// How many places a request occupies under the cap: one, or as many as it asks for tokens. `idle`: none, but all
  /// must be free.
  enum class occupancy { none, one, tokens, idle };

  explicit supplies(std::vector<token_bucket> rates) : supplies{std::move(rates), 0, occupancy::none} {}
  supplies(std::vector<token_bucket> rates, std::uint64_t capacity, occupancy o,
           std::shared_ptr<shared_places> shared = nullptr, std::shared_ptr<const unit_table> units = nullptr,
           rate_windows windows = {}, std::unique_ptr<alternatives> any_of = nullptr)
      : rates_{std::move(rates),
               units != nullptr && units->size() > 1 ? units->of_rates() : std::vector<std::uint8_t>{},
               std::move(windows)},
        capacity_{capacity},
        occupancy_{o},
        is_one_rate_alone_{o == occupancy::none && rates_.size() == 1 && !rates_.has_windows()},
        is_one_rate_{rates_.size() == 1 && shared == nullptr && !rates_.has_windows()},
        is_more_{rates_.size() > 1 || shared != nullptr || rates_.has_windows()},
        has_units_{units != nullptr && units->size() > 1},
        shared_{std::move(shared)},
        units_{std::move(units)},
        any_of_{std::move(any_of)} {}

  /// Takes what a request for `tokens` needs from all, or nothing from any. Not for a limit with units.
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
  /// Like try_take(), for a request that may want several units.
  bool try_take_each(time_point now, demand d) noexcept {
    const std::uint64_t places = places_for(d.tokens);
    if (!has_room_for(places) || !try_take_all(now, d)) return false;
    occupied_ += places;
    return true;
  }
  /// Takes at `now` what a request needs at ready_at(), or later, if a shared place has been taken for it.
  void take(time_point as_of, demand d, time_point now) noexcept {
    rates_.take(as_of, d, now);
    occupied_ += places_for(d.tokens);
  }

  /// When a request could be admitted if no other came; max if a place must be released before. Shared places do not
  /// count: another limit may take them at any moment.
  time_point ready_at(time_point now, demand d) const noexcept {
    return has_room_for(places_for(d.tokens)) ? rates_.ready_at(now, d) : time_point::max();
  }

  /// The latest wake-up for `ready` by which no rate loses a token.
  time_point ready_without_loss(time_point now, time_point ready) const noexcept;

  /// Why a request waits, and until when, if no other comes. Shared places do not count: the result is `share` if
  /// everything else is there.
  wait_reason what_binds(time_point now, demand d) const noexcept { return what_binds(now, d, places_for(d.tokens)); }
  /// Like what_binds() above, for several requests together, which need so many places.
  wait_reason what_binds(time_point now, demand d, std::uint64_t places) const noexcept;

  /// Takes back a grant that was never used; see rate_set::refund.
  void undo(time_point now, demand d, time_point granted_at) noexcept;
  /// Occupies places without a wait; false once they are closed.
  bool try_occupy(std::uint64_t places) noexcept {
    if (is_closed_) return false;
    occupied_ += places;
    return true;
  }
  void close() noexcept { is_closed_ = true; }
  /// Frees places.
  void release(std::uint64_t places) noexcept { occupied_ -= places; }

  /// In shadow mode some places are held beyond those that count against the capacity. Occupies such places.
  void occupy_beyond(std::uint64_t places) noexcept { beyond_ += places; }
  /// Counts places that take() has occupied as places that were held beyond.
  void take_over(std::uint64_t places) noexcept {
    const std::uint64_t out = std::min(places, beyond_);
    beyond_ -= out;
    occupied_ -= places - out;
  }
  /// After a release: if more was released than is counted, the rest was held beyond that.
  void settle_beyond() noexcept {
    if (static_cast<std::int64_t>(occupied_) < 0) beyond_ += std::exchange(occupied_, 0);
  }
  /// Moves the places that are held beyond the capacity to those that count against it.
  void count_beyond() noexcept { occupied_ += std::exchange(beyond_, 0); }

  /// The places that an admitted request for `tokens` occupies.
  std::uint64_t places_for(std::uint64_t tokens) const noexcept {
    return occupancy_ == occupancy::tokens ? tokens : occupancy_ == occupancy::one ? 1 : 0;
  }
  bool has_room_for(std::uint64_t places) const noexcept {
    if (occupancy_ == occupancy::idle) return occupied_ == 0;
    return places <= capacity_ && occupied_ <= capacity_ - places;
  }

  occupancy occupies() const noexcept { return occupancy_; }
  bool has_rates() const noexcept { return !rates_.empty(); }
  rate_set& rates() noexcept { return rates_; }
  const rate_set& rates() const noexcept { return rates_; }
  std::uint64_t capacity() const noexcept { return capacity_; }
  void set_capacity(std::uint64_t capacity) noexcept { capacity_ = capacity; }
  std::uint64_t occupied() const noexcept { return occupied_ + beyond_; }
  /// The shared places, of which each request needs one; nullptr: there are none.
  const std::shared_ptr<shared_places>& shared() const noexcept { return shared_; }
  /// The most tokens that one request can ever get, or the most of another unit.
  std::uint64_t largest_request(std::size_t unit = 0) const noexcept;
  /// Whether a request can ever be admitted.
  bool fits(demand d) const noexcept;

  /// The charge to a flow for a request, if there are units: the time in which the slowest rate makes its amount. In
  /// 1/256 ns, up to 2^54 ns. Without a rate of its own, the rates of the first alternative say how much that is.
  std::uint64_t charge_for(demand d) const noexcept;

  /// Whether a request can want more than one unit.
  bool has_units() const noexcept { return has_units_; }
  /// Whether a grant leaves a record, of the amounts and of its time. Grants of a scheduler leave none.
  bool has_records() const noexcept {
    return has_units_ || any_of_ != nullptr || (rates_.has_windows() && occupancy_ != occupancy::none);
  }
  /// The supplies of which a request needs one, too; nullptr: there are none. The members here leave them out.
  alternatives* any_of() noexcept { return any_of_.get(); }
  const alternatives* any_of() const noexcept { return any_of_.get(); }
  /// The names of the units, or nullptr if no rate has one.
  const unit_table* units() const noexcept { return units_.get(); }

 private:
  bool try_take_all(time_point now, demand d) noexcept;

  rate_set rates_;
  std::uint64_t capacity_ = 0;
  std::uint64_t occupied_ = 0;
  std::uint64_t beyond_ = 0;  // held, and not counted against the capacity
  occupancy occupancy_ = occupancy::none;
  bool is_one_rate_alone_;  // there is one rate, and nothing is occupied, as in a scheduler
  bool is_one_rate_;        // there is one rate, and no place is shared
  bool is_more_;            // there are several rates, or shared places
  bool is_closed_ = false;
  bool has_units_;
  std::shared_ptr<shared_places> shared_;
  std::shared_ptr<const unit_table> units_;
  std::unique_ptr<alternatives> any_of_;
};

}  // namespace canigo::detail
