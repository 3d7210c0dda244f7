#pragma once

#include "canigo/detail/queue/lane_key.hpp"
#include "canigo/detail/queue/rate_set.hpp"
#include "canigo/detail/queue/units.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace canigo::detail {

/// Limits of which each binds only the requests that name it: rates and a cap on places.
///
/// Pure values. Threads: none; its owner holds a lock. Allocates: in the constructor and in add().
class sublimits {
 public:
  static constexpr std::uint64_t no_cap = std::numeric_limits<std::uint64_t>::max();

  struct member {
    std::string name;
    rate_set rates;
    std::uint64_t capacity = no_cap;
    std::uint64_t occupied = 0;
    std::uint64_t granted = 0;
  };

  /// `units`: how many units the limit has.
  sublimits(std::vector<member> members, std::size_t units) : members_{std::move(members)}, units_{units} {}

  std::size_t size() const noexcept { return members_.size(); }
  member& operator[](std::size_t i) noexcept { return members_[i]; }
  const member& operator[](std::size_t i) const noexcept { return members_[i]; }
  /// Adds one, and returns its number. There are fewer than most_sublimits.
  std::size_t add(member m);

  /// Whether one can ever serve this demand. The number may be without_sublimit, here and below: that one serves each.
  bool fits(std::uint16_t i, demand d) const noexcept;
  /// The most of a unit that one request can ever get of it.
  std::uint64_t largest_request(std::uint16_t i, std::size_t unit) const noexcept;
  /// When one could serve a request if no other came; max if a place must be released first.
  time_point ready_at(std::uint16_t i, time_point now, demand d) const noexcept;
  /// A lower bound on that for requests that together want so much: a place may be released at any moment.
  time_point earliest(std::uint16_t i, time_point now, demand d) const noexcept;
  /// Why a request waits that this one has no room for.
  wait_reason what_binds(std::uint16_t i, time_point now, demand d) const noexcept;

  /// Takes at `now` what a request needs, that was there at `as_of`.
  void take(std::uint16_t i, time_point as_of, demand d, time_point now) noexcept;
  void release(std::uint16_t i) noexcept;
  /// Takes back a grant that was never used.
  void undo(std::uint16_t i, time_point now, demand d, time_point granted_at) noexcept;
  /// Charges what was used of a unit beyond what was wanted, or gives back the rest.
  void settle(std::uint16_t i, time_point now, std::size_t unit, std::uint64_t wanted, std::uint64_t used,
              time_point granted_at) noexcept;

 private:
  std::vector<member> members_;
  std::size_t units_;
};

}  // namespace canigo::detail
