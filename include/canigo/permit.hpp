#pragma once

#include "canigo/queue_stats.hpp"
#include "canigo/request.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace canigo {

namespace detail {
class admission;
class permit_waiter;
}  // namespace detail

/// Permission to run, from a semaphore, a limiter or a gate. Held until it is released or destroyed.
///
/// It may outlive the object that it comes from, and the execution context. It may be dropped on any thread, also
/// while another thread destroys the context.
///
/// Threads: one at a time. Allocates: never.
class [[nodiscard]] permit {
 public:
  permit() noexcept = default;
  permit(permit&& other) noexcept
      : home_{std::exchange(other.home_, nullptr)}, places_{std::exchange(other.places_, 0)}, kept_{other.kept_} {}
  permit& operator=(permit&& other) noexcept {
    permit taken{std::move(other)};
    std::swap(home_, taken.home_);
    std::swap(places_, taken.places_);
    std::swap(kept_, taken.kept_);
    return *this;
  }
  ~permit() { release(); }

  /// Gives back everything that is held; the next waiters go. Idempotent.
  void release() noexcept {
    if (home_ != nullptr) give_back();
  }

  /// Moves `places` of its places into a permit of their own. If that is all of them, this permit is empty afterwards.
  ///
  /// Errors: errc::invalid_argument unless 1 <= places <= held().
  permit split(std::uint64_t places);

  /// The number of places that it stands for: the weight of a semaphore's permit, 1 for others. 0 once everything is
  /// released, split off or moved away.
  std::uint64_t held() const noexcept;
  explicit operator bool() const noexcept { return home_ != nullptr; }

  /// The alternative of a limiter that it comes from: its index, and its name. Otherwise no_alternative, and an empty
  /// name. The name lives as long as the permit is held.
  std::size_t alternative() const noexcept;
  std::string_view alternative_name() const noexcept;

  /// Says how many tokens were really used. This replaces the number that was asked for, or settled for last.
  ///
  /// The rates of a limiter are charged the difference, into debt if necessary. If less was used, they get it back, up
  /// to their bursts. A permit of a semaphore or a gate charges only the rates of its flow. If rates have several
  /// units, these are the tokens of the first one.
  ///
  /// Call it only while the permit is held.
  void settle(std::uint64_t used) noexcept;
  /// Like settle(used), for one unit of a limiter, by its name or number: `p.settle("tokens", 1130)`.
  ///
  /// Throws std::system_error, errc::invalid_argument, if the limiter has no such unit.
  void settle(unit_key unit, std::uint64_t used);

 private:
  friend class detail::permit_waiter;
  permit(detail::admission& home, std::uint64_t places, std::uint64_t kept) noexcept
      : home_{&home}, places_{places}, kept_{kept} {}
  void give_back() noexcept;

  detail::admission* home_ = nullptr;  // kept alive by the places that are occupied in it
  std::uint64_t places_ = 0;           // with the number of their flow: see detail::flow_places
  std::uint64_t kept_ = 0;             // the tokens that were granted; with units or strict windows, a record
};

}  // namespace canigo
