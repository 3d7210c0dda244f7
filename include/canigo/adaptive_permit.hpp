#pragma once

#include "canigo/algorithms/limit_sample.hpp"
#include "canigo/detail/around/tuner.hpp"
#include "canigo/error.hpp"
#include "canigo/permit.hpp"
#include "canigo/time.hpp"

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

namespace canigo {

namespace detail {
class adaptive_waiter;
}

/// Permission to run, from an adaptive_limit, which learns from it how the call ended. Held until it is reported,
/// released or destroyed.
///
/// It may outlive its limit and the execution context, and may be dropped on any thread.
/// Threads: one at a time. Allocates: never.
class [[nodiscard]] adaptive_permit {
 public:
  adaptive_permit() noexcept = default;
  adaptive_permit(adaptive_permit&& other) noexcept
      : home_{other.home_},
        place_{std::move(other.place_)},
        since_{other.since_},
        waited_{other.waited_},
        in_flight_{other.in_flight_} {}
  adaptive_permit& operator=(adaptive_permit&& other) noexcept {
    adaptive_permit taken{std::move(other)};
    std::swap(home_, taken.home_);
    std::swap(place_, taken.place_);
    std::swap(since_, taken.since_);
    std::swap(waited_, taken.waited_);
    std::swap(in_flight_, taken.in_flight_);
    return *this;
  }
  ~adaptive_permit() { release(); }

  /// The call begins only now: its latency counts from here. For a call that has waited for something else.
  void begin() noexcept {
    if (home_ != nullptr) since_ = home_->now();
  }

  /// Each of these reports how the call ended, and gives the place back. Afterwards the permit is empty.
  ///
  /// The call has succeeded: the time since the grant is its latency.
  void succeeded() noexcept { end(sample_outcome::ok); }
  /// The callee refused it because it has too much to do, or did not answer in time.
  void dropped() noexcept { end(sample_outcome::dropped); }
  /// The caller gave it up. It counts only if it took long, or if it began after a longer wait.
  void cancelled() noexcept { end(sample_outcome::cancelled); }
  /// It failed: dropped() if is_overload_of_callee() says so, else release().
  void failed_with(const std::exception_ptr& error) noexcept { is_overload_of_callee(error) ? dropped() : release(); }

  /// Gives the place back. The call is no sample. Idempotent.
  void release() noexcept { end(std::nullopt); }

  /// 1, or 0 once it is empty.
  std::uint64_t held() const noexcept { return place_.held(); }
  explicit operator bool() const noexcept { return static_cast<bool>(place_); }

 private:
  friend class detail::adaptive_waiter;
  /// `asked_at`: when its caller asked; time_point{}: just now.
  adaptive_permit(detail::admission& home, permit place, time_point asked_at = {}) noexcept
      : home_{&home}, place_{std::move(place)}, since_{home.now()}, in_flight_{detail::tuner_of(home).begin()} {
    if (asked_at != time_point{}) waited_ = since_ - asked_at;
  }
  void end(std::optional<sample_outcome> how) noexcept;

  detail::admission* home_ = nullptr;  // kept alive by the place
  permit place_;
  time_point since_{};
  duration waited_{};
  std::uint64_t in_flight_ = 0;
};

}  // namespace canigo
