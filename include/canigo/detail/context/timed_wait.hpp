#pragma once

#include "canigo/detail/context/work_item.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

namespace canigo::detail {

/// A caller that waits until an instant, and for nothing else that has a lock.
///
/// Its end is with the one that takes its deadline back, or with the call of the deadline. If there is no memory to
/// post the end, the deadline brings it again a millisecond later. Once the context is gone, this is destroyed.
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

  /// It ends through the event loop, even if `t` has passed.
  void wait_until(time_point t) noexcept {
    if (t <= time_.now()) {
      end();
    } else {
      arm(t);
    }
  }
  /// Whether the end is now with the one that calls this.
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
