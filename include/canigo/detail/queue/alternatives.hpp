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

/// Supplies of which a request takes from exactly one. Each has rates and a cap of its own. It may be paused or closed.
///
/// A set of them is a bit mask. Pure values. Threads: none; its owner holds a lock. Allocates: in the constructor.
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

  /// `units`: how many units the limit has.
  alternatives(std::vector<member> members, std::size_t units);

  std::size_t size() const noexcept { return members_.size(); }
  member& operator[](std::size_t i) noexcept { return members_[i]; }
  const member& operator[](std::size_t i) const noexcept { return members_[i]; }

  /// The set of all; and of those that are not closed.
  std::uint64_t all() const noexcept { return ~std::uint64_t{0} >> (most - members_.size()); }
  std::uint64_t not_closed() const noexcept { return not_closed_; }
  /// Those of a set that can serve a request at some time: they are not closed, and no amount is more than they can
  /// ever give.
  std::uint64_t that_fit(std::uint64_t set, demand d) const noexcept;
  /// The most of a unit that one request can ever get of the one in the set that gives most; 0 for an empty set.
  std::uint64_t largest_request(std::uint64_t set, std::size_t unit = 0) const noexcept;
  /// Looks again at what each can ever give. Returns whether that has changed, so that that_fit() may have.
  bool look_at_sizes() noexcept;

  /// When one could serve a request if no other came; max if a place must be released first, or if it is paused without
  /// an end, or closed.
  time_point ready_at(std::size_t i, time_point now, demand d) const noexcept;

  struct choice {
    std::size_t index = no_alternative;    ///< no_alternative: none has room
    time_point ready = time_point::max();  ///< since when that one has room; or when the first one of the set has
  };
  /// The one that serves a request: of the lowest `prefer` among those in the set that have room at `now`. If several
  /// have that, the one with the most room left as a share of its burst; of equal ones the first. Tokens that were due
  /// since `as_of` count as of when they were due.
  choice choose(std::uint64_t set, time_point as_of, time_point now, demand d) const noexcept;

  /// Takes at `now` what a request needs, that was there at `as_of`.
  void take(std::size_t i, time_point as_of, demand d, time_point now) noexcept;
  void release(std::size_t i) noexcept { --members_[i].occupied; }
  /// Takes back a grant that was never used.
  void undo(std::size_t i, time_point now, demand d, time_point granted_at) noexcept;

  /// A lower bound on when the last of several requests of one set, which together want `all`, can be served; it wants
  /// `own` itself. A pause without an end may end at any moment.
  time_point earliest(std::uint64_t set, time_point now, demand own, demand all) const noexcept;
  /// Why a request of this set waits, at the alternative that can serve it first.
  wait_reason what_binds(std::uint64_t set, time_point now, demand d) const noexcept;

 private:
  // The part of the burst that is left.
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
  std::uint64_t not_closed_ = 0;
  std::vector<amounts_by_unit> largest_;  // of each: the most of each unit that one request can ever get
};

/// Calls `f` for each number in a set, from the lowest on.
template <class Function>
void for_each_in_set(std::uint64_t set, Function&& f) {
  for (; set != 0; set &= set - 1) f(static_cast<std::size_t>(std::countr_zero(set)));
}

}  // namespace canigo::detail
