#pragma once

#include <cstdint>
#include <utility>

namespace canigo {

namespace detail {
class admission;
class permit_waiter;
}  // namespace detail

/// Leave to go on, for as long as it is held: what semaphore, limiter and gate hand out. Dropping it gives it back.
///
/// May outlive the object it is from and the execution context, and may be dropped on any thread, except while the
/// context is being destroyed on another one and somebody waits for the permit.
///
/// Threads: one at a time. Allocates: never.
class [[nodiscard]] permit {
 public:
  permit() noexcept = default;
  permit(permit&& other) noexcept
      : home_{std::exchange(other.home_, nullptr)}, places_{std::exchange(other.places_, 0)}, tokens_{other.tokens_} {}
  permit& operator=(permit&& other) noexcept {
    permit taken{std::move(other)};
    std::swap(home_, taken.home_);
    std::swap(places_, taken.places_);
    std::swap(tokens_, taken.tokens_);
    return *this;
  }
  ~permit() { release(); }

  /// Gives back all that is held; who waits for it goes. Idempotent.
  void release() noexcept {
    if (home_ != nullptr) give_back();
  }

  /// Takes `places` out of this one into one of its own; all of them leaves nothing here.
  ///
  /// Errors: errc::invalid_argument unless 1 <= places <= held().
  permit split(std::uint64_t places);

  /// How many places it stands for: the weight of a semaphore's permit, 1 for others; 0 once released, split or moved
  /// away.
  std::uint64_t held() const noexcept { return places_; }
  explicit operator bool() const noexcept { return home_ != nullptr; }

  /// Says how many tokens were really used, in place of those asked for or settled for last: the limiter's rates are
  /// charged the difference, a debt if need be, or get it back, up to their bursts. In a semaphore or gate nothing
  /// changes.
  ///
  /// Only while held.
  void settle(std::uint64_t used) noexcept;

 private:
  friend class detail::permit_waiter;
  permit(detail::admission& home, std::uint64_t places, std::uint64_t tokens) noexcept
      : home_{&home}, places_{places}, tokens_{tokens} {}
  void give_back() noexcept;

  detail::admission* home_ = nullptr;  // kept alive by the places that are occupied in it
  std::uint64_t places_ = 0;
  std::uint64_t tokens_ = 0;
};

}  // namespace canigo
