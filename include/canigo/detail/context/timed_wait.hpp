#pragma once

#include "canigo/detail/context/work_item.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

namespace canigo::detail {

/// A caller that waits until a point in time. No lock protects this wait.
///
/// If take_back() disarms the deadline, the caller of take_back() must end the wait. If take_back() does not disarm the
/// deadline, the deadline's function ends the wait. If there is no memory to post the end, the deadline tries again a
/// millisecond later. If the context is destroyed, this object is destroyed, too.
class timed_wait : public suspended, private deadline {
 protected:
  explicit timed_wait(time_source& time) noexcept
      : deadline{[](deadline& d, due why) noexcept {
          auto& w = static_cast<timed_wait&>(d);
          if (why == due::shutdown) {
            w.destroy();
          } else {
            w.end();
          }
        }},
        time_{time} {}
  ~timed_wait() = default;

  /// Starts the wait. The wait always ends through the event loop, even if `t` has passed.
  void wait_until(time_point t) noexcept {
    if (t <= time_.now()) {
      end();
    } else {
      arm(t);
    }
  }
  /// Disarms the deadline. Returns true if the caller of this function must now end the wait.
  [[nodiscard]] bool take_back() noexcept { return time_.cancel(*this); }
  void end() noexcept {
    try {
      post();
    } catch (...) {
      arm(saturating_add(time_.now(), retry_after));
    }
  }

 private:
  void arm(time_point t) noexcept {
    if (!time_.arm(*this, t)) destroy();
  }

  time_source& time_;
};

}  // namespace canigo::detail
