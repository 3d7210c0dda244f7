#pragma once

#include "canigo/detail/queue/rate_set.hpp"
#include "canigo/detail/queue/units.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace canigo::detail {

/// The alternatives of a limiter. A request takes its slot and its tokens from exactly one alternative. Each
/// alternative has its own rates and cap, and may be paused or closed.
///
/// A set of alternatives is a bit mask: bit i stands for alternative i. This class is a value type. Threads: not
/// thread-safe; its owner must hold a lock. Allocates: in the constructor.
class alternatives {
 public:
  static constexpr std::size_t most = 64;
  static constexpr std::uint64_t no_cap = std::numeric_limits<std::uint64_t>::max();

  struct member {
    std::string name;
    rate_set rates;
    std::uint64_t capacity = no_cap;
    int prefer = 1;
    std::uint64_t occupied = 0;
    std::uint64_t granted = 0;
    time_point paused_until = time_point::min();
    bool is_closed = false;
  };

  /// `units`: the number of units of the limit. `is_hidden`: the limit has no alternatives, and the only member stands
  /// for the whole limit.
  alternatives(std::vector<member> members, std::size_t units, bool is_hidden = false);

  std::size_t size() const noexcept { return members_.size(); }
  member& operator[](std::size_t i) noexcept { return members_[i]; }
  const member& operator[](std::size_t i) const noexcept { return members_[i]; }

  bool is_hidden() const noexcept { return is_hidden_; }
  /// The set of alternatives that may serve a request whose `alternatives` is `mask`.
  std::uint64_t allowed(std::uint64_t mask) const noexcept { return is_hidden_ ? 1 : mask; }

  /// all() is the set of all alternatives; not_closed() is the set of the alternatives that are not closed.
  std::uint64_t all() const noexcept { return ~std::uint64_t{0} >> (most - members_.size()); }
  std::uint64_t not_closed() const noexcept { return not_closed_; }
  /// The alternatives of a set that can ever serve a request: they are not closed, and the request asks for no more
  /// than their largest_request().
  std::uint64_t that_fit(std::uint64_t set, demand d) const noexcept;
  /// The max amount of a unit that one request can ever get from any alternative of the set; 0 for an empty set.
  std::uint64_t largest_request(std::uint64_t set, std::size_t unit = 0) const noexcept;
  /// Updates the largest request of each alternative, and not_closed(). Returns true if one of these values has
  /// changed. In that case the results of that_fit() may have changed, too.
  bool look_at_sizes() noexcept;

  /// When alternative `i` can serve a request if no other request comes. time_point::max() if a slot must be released
  /// first, or if the alternative is closed, or paused until resume() is called.
  time_point ready_at(std::size_t i, time_point now, demand d) const noexcept;

  struct choice {
    std::size_t index = no_alternative;  ///< the index of the alternative; no_alternative: none has free capacity
    /// the time from which the chosen alternative has free capacity; if none is chosen: the earliest time at which an
    /// alternative will have free capacity
    time_point ready = time_point::max();
  };
  /// Chooses the alternative that serves a request: the one with the lowest `prefer` among those in the set with free
  /// capacity at `now`. Among several with the same `prefer`, chooses the alternative with the largest free part; if
  /// these parts are equal, the first alternative. The free part of an alternative is the smallest free part of its cap
  /// and of the bursts that the request needs. Tokens that were released since `as_of` count from the instant of their
  /// release.
  choice choose(std::uint64_t set, time_point as_of, time_point now, demand d) const noexcept;

  /// Takes the demand of a request from alternative `i` at `now`. The alternative's rates count the tokens as taken at
  /// `as_of`.
  void take(std::size_t i, time_point as_of, demand d, time_point now) noexcept;
  void release(std::size_t i) noexcept { --members_[i].occupied; }
  /// Takes the demand of a request from alternative `i`, even beyond its capacity.
  void occupy(std::size_t i, time_point now, demand d) noexcept;
  /// Gives the slot and the tokens of an unused grant back to alternative `i`.
  void undo(std::size_t i, time_point now, demand d, time_point granted_at) noexcept;

  /// Several requests wait, and all of them may use the alternatives in `set`. Returns a lower bound on the instant at
  /// which the last of these requests can be served. `all` is the sum of their demands, `own` the demand of the last
  /// request. Ignores a pause that lasts until resume(), because resume() may be called at any moment.
  time_point earliest(std::uint64_t set, time_point now, demand own, demand all) const noexcept;
  /// Returns the limit that delays a request. The limit belongs to the alternative in `set` that can serve the request
  /// earliest.
  wait_reason what_binds(std::uint64_t set, time_point now, demand d) const noexcept;

 private:
  // The free part of an alternative's cap or of one of its bursts: the fraction left / of.
  struct room {
    std::uint64_t left = 1;
    std::uint64_t of = 1;
    bool is_all() const noexcept { return left == of; }
    bool is_less_than(const room& other) const noexcept { return uint128{left} * other.of < uint128{other.left} * of; }
  };
  bool has_more_room(const member& m, time_point now, demand d, room& other) const noexcept;
  time_point earliest_of_unit(std::uint64_t set, time_point now, std::size_t unit, std::uint64_t all) const noexcept;

  std::vector<member> members_;
  std::size_t units_;
  bool is_hidden_;
  std::uint64_t not_closed_ = 0;
  // The largest request of each alternative: the max amount of each unit that one request can ever get.
  std::vector<amounts_by_unit> largest_;
};

/// Calls `f` for each number in a set, in ascending order.
template <class Function>
void for_each_in_set(std::uint64_t set, Function&& f) {
  for (; set != 0; set &= set - 1) f(static_cast<std::size_t>(std::countr_zero(set)));
}

}  // namespace canigo::detail
