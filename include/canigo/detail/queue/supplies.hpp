#pragma once

#include "canigo/algorithms/token_bucket.hpp"
#include "canigo/detail/queue/alternatives.hpp"
#include "canigo/detail/queue/rate_set.hpp"
#include "canigo/detail/queue/shared_places.hpp"
#include "canigo/detail/queue/sublimits.hpp"
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

/// Everything that a request needs: tokens of every rate, slots under the cap on concurrency, and a shared slot if the
/// limit shares slots with other limits. If rates have several units, a request needs an amount of each.
///
/// A request takes all of them in one step, or nothing. All members are plain values, except the shared slots, which
/// several limits use.
class supplies {
 public:
  /// How many slots a request occupies under the cap: none, one, or one for each requested token. `idle`: a request
  /// occupies no slot, but is granted only if all slots are free.
  enum class occupancy { none, one, tokens, idle };

  explicit supplies(std::vector<token_bucket> rates) : supplies{std::move(rates), 0, occupancy::none} {}
  supplies(std::vector<token_bucket> rates, std::uint64_t capacity, occupancy o,
           std::shared_ptr<shared_places> shared = nullptr, std::shared_ptr<const unit_table> units = nullptr,
           rate_windows windows = {}, std::unique_ptr<alternatives> any_of = nullptr,
           std::unique_ptr<sublimits> named = nullptr)
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
        any_of_{std::move(any_of)},
        named_{std::move(named)} {}

  /// Takes everything that a request for `tokens` needs, or nothing. Not for a limit with units.
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
  /// Like try_take(), for a request that may need several units.
  bool try_take_each(time_point now, demand d) noexcept {
    const std::uint64_t places = places_for(d.tokens);
    if (!has_room_for(places) || !try_take_all(now, d)) return false;
    occupied_ += places;
    return true;
  }
  /// Takes what a request needs, except its shared slot, which was taken before. The request is granted at `now`, but
  /// takes tokens that were available at `as_of`. Precondition: now >= ready_at(now, d).
  void take(time_point as_of, demand d, time_point now) noexcept {
    rates_.take(as_of, d, now);
    occupied_ += places_for(d.tokens);
  }

  /// When a request can be admitted if no other request comes; max if a slot must be released first. Shared slots are
  /// not considered, because another limit may take them at any moment.
  time_point ready_at(time_point now, demand d) const noexcept {
    return has_room_for(places_for(d.tokens)) ? rates_.ready_at(now, d) : time_point::max();
  }

  /// Returns how late a wake-up that is due at `ready` may come: the last instant before a full bucket loses tokens.
  time_point ready_without_loss(time_point now, time_point ready) const noexcept;

  /// Why a request waits, and until when, if no other request comes. Shared slots are not considered: the result is
  /// `share` if everything else is available.
  wait_reason what_binds(time_point now, demand d) const noexcept { return what_binds(now, d, places_for(d.tokens)); }
  /// Like what_binds() above, for several requests that together need `places` slots.
  wait_reason what_binds(time_point now, demand d, std::uint64_t places) const noexcept;

  /// Takes back a grant that was not used; see rate_set::refund.
  void undo(time_point now, demand d, time_point granted_at) noexcept;
  /// Occupies slots without waiting, even if too few are free. Returns false, and occupies no slot, if the supplies are
  /// closed.
  bool try_occupy(std::uint64_t places) noexcept {
    if (is_closed_) return false;
    occupied_ += places;
    return true;
  }
  void close() noexcept { is_closed_ = true; }
  /// Releases slots that requests have occupied.
  void release(std::uint64_t places) noexcept { occupied_ -= places; }

  /// Occupies slots for a request that would have to wait without shadow mode. These slots are beyond the capacity, and
  /// do not count when another request needs free slots.
  void occupy_beyond(std::uint64_t places) noexcept { beyond_ += places; }
  /// Call it after take() for a waiter in shadow mode. The waiter's request already held slots beyond the capacity, and
  /// take() has counted these slots again. So this function subtracts them from the slots beyond the capacity.
  void take_over(std::uint64_t places) noexcept {
    const std::uint64_t out = std::min(places, beyond_);
    beyond_ -= out;
    occupied_ -= places - out;
  }
  /// Call it after a release. If more slots were released than occupied_ counted, the surplus is subtracted from the
  /// slots beyond the capacity.
  void settle_beyond() noexcept {
    if (static_cast<std::int64_t>(occupied_) < 0) beyond_ += std::exchange(occupied_, 0);
  }
  /// Call it when shadow mode ends: the slots beyond the capacity then count as occupied.
  void count_beyond() noexcept { occupied_ += std::exchange(beyond_, 0); }

  /// The number of slots that an admitted request for `tokens` occupies.
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
  /// The shared slots. Each request needs one of them. nullptr: the limit has no shared slots.
  const std::shared_ptr<shared_places>& shared() const noexcept { return shared_; }
  /// The max number of tokens, or of another unit, that one request can ever get.
  std::uint64_t largest_request(std::size_t unit = 0) const noexcept;
  /// Whether a request can ever be admitted.
  bool fits(demand d) const noexcept;

  /// Returns how much a request is charged to its flow, in a limit with units. The charge is the time in which the
  /// slowest rate makes the requested amount. It is counted in units of 1/256 ns, up to 2^54 ns. If the limit has no
  /// common rate, the rates of the first alternative count. If that alternative has no rates, the rates of the
  /// request's sublimit count.
  std::uint64_t charge_for(demand d, std::uint16_t sublimit = without_sublimit) const noexcept;

  /// Whether the rates count different units, such as requests and bytes. Then a request has an amount of each unit.
  bool has_units() const noexcept { return has_units_; }
  /// Whether grants need a record of their amounts and time. Grants of a scheduler never need one.
  bool has_records() const noexcept {
    return has_units_ || any_of_ != nullptr || (rates_.has_windows() && occupancy_ != occupancy::none);
  }
  /// The alternatives, of which each request needs one; nullptr: there are none. All other members of this class ignore
  /// the alternatives.
  alternatives* any_of() noexcept { return any_of_.get(); }
  const alternatives* any_of() const noexcept { return any_of_.get(); }
  /// The sublimits, of which a request names at most one; nullptr if the limit has no sublimits. If the limit has
  /// sublimits, any_of() is not nullptr.
  sublimits* named() noexcept { return named_.get(); }
  const sublimits* named() const noexcept { return named_.get(); }
  /// The names of the units; nullptr if no rate has a unit name.
  const unit_table* units() const noexcept { return units_.get(); }

 private:
  bool try_take_all(time_point now, demand d) noexcept;

  rate_set rates_;
  std::uint64_t capacity_ = 0;
  std::uint64_t occupied_ = 0;
  std::uint64_t beyond_ = 0;  // slots that shadow mode has granted beyond the capacity; not counted in occupied_
  occupancy occupancy_ = occupancy::none;
  bool is_one_rate_alone_;  // whether there is one rate, without a strict window, and no cap
  bool is_one_rate_;        // whether there is one rate, without a strict window, and no shared slot
  bool is_more_;            // whether there are several rates, strict windows or shared slots
  bool is_closed_ = false;
  bool has_units_;
  std::shared_ptr<shared_places> shared_;
  std::shared_ptr<const unit_table> units_;
  std::unique_ptr<alternatives> any_of_;
  std::unique_ptr<sublimits> named_;
};

}  // namespace canigo::detail
