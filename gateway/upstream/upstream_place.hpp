#pragma once

#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/redis/permit.hpp"

#include "gateway/policy/token_amounts.hpp"
#include "gateway/policy/upstream_breaker.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace canigo::gateway {

class upstream_limit;

/// The place of a running call at its upstream: a permit of this instance's limit, a permit of the limit that all
/// instances share, and a pass of the breaker. The place is held until release(), give_back() or the destructor.
///
/// Threads: only the thread of the call's loop.
class [[nodiscard]] upstream_place {
 public:
  upstream_place() noexcept = default;
  upstream_place(upstream_place&& other) noexcept { swap(other); }
  upstream_place& operator=(upstream_place&& other) noexcept {
    upstream_place taken{std::move(other)};
    swap(taken);
    return *this;
  }
  ~upstream_place() { release(); }

  explicit operator bool() const noexcept { return home_ != nullptr; }
  /// Returns the index of the target that serves the call.
  std::size_t target() const noexcept { return target_; }

  /// Reports to the breaker whether the call has failed. Returns true if the breaker opens. The caller must then end
  /// the waits of other calls for this upstream that have become too long.
  bool report(bool failed) noexcept;
  /// Reports to the breaker that a response was cut off after report() had reported its success. Returns true if the
  /// breaker opens, like report().
  bool report_broken_off() noexcept;
  /// If the permit in Redis is lost while this place is held, calls `lost` on `executor`, at most once. The permit is
  /// lost if Redis does not answer for too long. Another instance may then get it.
  void watch(const net::any_io_executor& executor, std::function<void()> lost);
  /// Charges the call for the amounts `used`, instead of the amounts that it requested.
  void settle(std::span<const token_amount> used);
  /// Releases the place, and gives all its tokens back. Call it if nothing was sent.
  void give_back();
  /// Releases the place. Further calls have no effect.
  void release() noexcept;

 private:
  friend class upstream_limit;
  void settle(std::size_t unit, std::uint64_t used);
  upstream_place(upstream_limit& home, std::size_t target, permit local, redis::permit shared,
                 const upstream_breaker::pass& p)
      : home_{&home}, target_{target}, local_{std::move(local)}, pass_{p} {
    if (shared) shared_ = std::make_shared<redis::permit>(std::move(shared));
  }
  void swap(upstream_place& other) noexcept {
    std::swap(home_, other.home_);
    std::swap(target_, other.target_);
    std::swap(local_, other.local_);
    std::swap(shared_, other.shared_);
    std::swap(lost_, other.lost_);
    std::swap(pass_, other.pass_);
  }

  upstream_limit* home_ = nullptr;
  std::size_t target_ = 0;
  permit local_;
  std::shared_ptr<redis::permit> shared_;        // null: the upstream's limits are not shared
  std::shared_ptr<std::function<void()>> lost_;  // holds the handler of watch(); empty after the place was released
  upstream_breaker::pass pass_;
};

}  // namespace canigo::gateway
