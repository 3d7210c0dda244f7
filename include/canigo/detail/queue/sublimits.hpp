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

/// The sublimits of a limit. Each sublimit has rates and a cap on slots, and binds only the requests that name it.
///
/// `i` is the number of a sublimit, or without_sublimit for a request that names no sublimit. With without_sublimit,
/// the functions that take `i` limit nothing and count nothing; what_binds() must not be called.
///
/// Threads: not thread-safe; its owner must hold a lock. Allocates: in the constructor and in add().
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

  /// `units`: the number of units of the whole limit.
  sublimits(std::vector<member> members, std::size_t units) : members_{std::move(members)}, units_{units} {}

  std::size_t size() const noexcept { return members_.size(); }
  member& operator[](std::size_t i) noexcept { return members_[i]; }
  const member& operator[](std::size_t i) const noexcept { return members_[i]; }
  /// Adds a sublimit, and returns its number. Precondition: size() < most_sublimits.
  std::size_t add(member m);

  /// Whether one request may ask for the demand `d`: in each unit, `d` is at most the largest request of the sublimit.
  bool fits(std::uint16_t i, demand d) const noexcept;
  /// The largest amount of a unit that one request can get from the sublimit.
  std::uint64_t largest_request(std::uint16_t i, std::size_t unit) const noexcept;
  /// The earliest time at which the sublimit can serve a request, if it serves no other request before that. Returns
  /// max() if a slot must be released first.
  time_point ready_at(std::uint16_t i, time_point now, demand d) const noexcept;
  /// A lower bound on the time at which the sublimit has served requests with the total demand `d`. The bound considers
  /// only the rates and not the cap on slots, because a slot may be released at any moment.
  time_point earliest(std::uint16_t i, time_point now, demand d) const noexcept;
  /// Returns the cap or the rate of the sublimit because of which a request has to wait. Precondition: the sublimit
  /// lacks capacity for the request.
  wait_reason what_binds(std::uint16_t i, time_point now, demand d) const noexcept;

  /// Takes the demand of a request from the sublimit at `now`. The sublimit's rates count the tokens as taken at
  /// `as_of`.
  void take(std::uint16_t i, time_point as_of, demand d, time_point now) noexcept;
  /// Frees the slot of a request that has ended.
  void release(std::uint16_t i) noexcept;
  /// Gives the slot and the tokens of an unused grant back to the sublimit.
  void undo(std::uint16_t i, time_point now, demand d, time_point granted_at) noexcept;
  /// Settles one unit of a grant: charges the amount by which `used` exceeds `wanted`, or gives back the part of
  /// `wanted` that was not used.
  void settle(std::uint16_t i, time_point now, std::size_t unit, std::uint64_t wanted, std::uint64_t used,
              time_point granted_at) noexcept;

 private:
  std::vector<member> members_;
  std::size_t units_;
};

}  // namespace canigo::detail
