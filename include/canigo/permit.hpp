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

/// A permission to run, from a semaphore, a limiter or a gate. The owner holds it until it is released or destroyed.
///
/// A permit may outlive the object that granted it, and the execution context. It may be dropped on any thread, even
/// while another thread destroys the context.
///
/// Threads: one thread at a time may use a permit. Allocates: never.
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

  /// Gives back everything that the permit holds; then the next waiters are granted. Idempotent.
  void release() noexcept {
    if (home_ != nullptr) give_back();
  }

  /// Moves `places` slots of this permit into a new permit. If these are all slots, this permit is empty afterwards.
  ///
  /// Errors: errc::invalid_argument unless 1 <= places <= held().
  permit split(std::uint64_t places);

  /// The number of slots that the permit holds: its weight for a semaphore, 1 for other objects. The number is 0 after
  /// all slots are released, split off or moved away.
  std::uint64_t held() const noexcept;
  explicit operator bool() const noexcept { return home_ != nullptr; }

  /// The index and the name of the limiter's alternative that granted this permit. If no alternative granted the
  /// permit, the index is no_alternative, and the name is empty. The name is valid as long as the permit is held.
  std::size_t alternative() const noexcept;
  std::string_view alternative_name() const noexcept;
  /// Moves the permit to another alternative of its limiter, for example because a later limit has chosen that
  /// alternative. The new alternative is charged the slot and the tokens, beyond its cap and into debt if necessary.
  /// The former alternative gets the slot and the tokens back.
  ///
  /// Call it only while the permit is held. Throws std::system_error, errc::invalid_argument, if there is no such
  /// alternative.
  void move_to(std::size_t alternative);

  /// Reports how many tokens the operation really used. The reported number replaces the requested number of tokens,
  /// and the number of an earlier settle().
  ///
  /// If more tokens were used, the rates of the limiter are charged the difference, and may get into debt. If fewer
  /// tokens were used, the rates get the difference back, up to their bursts. A permit of a semaphore or a gate charges
  /// only the rates of its flow. If the limiter has several units, `used` counts tokens of the first unit.
  ///
  /// Precondition: the permit is held.
  void settle(std::uint64_t used) noexcept;
  /// Like settle(used), for one unit of a limiter, given by its name or number: `p.settle("tokens", 1130)`.
  ///
  /// Throws std::system_error (errc::invalid_argument) if the limiter has no such unit.
  void settle(unit_key unit, std::uint64_t used);

 private:
  friend class detail::permit_waiter;
  permit(detail::admission& home, std::uint64_t places, std::uint64_t kept) noexcept
      : home_{&home}, places_{places}, kept_{kept} {}
  void give_back() noexcept;

  detail::admission* home_ = nullptr;  // the engine; the occupied slots keep it alive
  std::uint64_t places_ = 0;  // the number of slots, combined with the number of their flow: see detail::flow_places
  std::uint64_t kept_ = 0;    // the granted tokens; with units, alternatives or strict windows, a pointer to a record
};

}  // namespace canigo
