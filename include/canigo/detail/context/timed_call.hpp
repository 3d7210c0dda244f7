#pragma once

#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

namespace canigo::detail {

/// The deadline of a call that waits in an engine, and whether the call has ended. Used only under the engine's lock.
///
/// `Call` must have a member time_is_up(), which the deadline's function calls. When a call ends, another thread may
/// already be calling that function. Then the call must live until that thread has called time_is_up(). The engine
/// implements time_is_up(): it calls rang(), and completes the call if rang() returns true.
template <class Call>
class timed_call : public deadline {
 public:
  explicit timed_call(Call& c) noexcept
      : deadline{[](deadline& d, due why) noexcept { static_cast<timed_call&>(d).call_->time_is_up(why); }},
        call_{&c} {}

  /// Moves the deadline to `when`; time_point::max() disarms it. Does nothing if another thread is calling the
  /// deadline's function.
  void set(time_source& time, time_point when) noexcept {
    if (disarm(time)) is_armed_ = when != time_point::max() && time.arm(*this, when);
  }
  /// Call it when the call has ended. Returns true if the call may be completed now. Otherwise another thread is
  /// calling the deadline's function. In that thread rang() will return true, so that thread completes the call.
  [[nodiscard]] bool end(time_source& time) noexcept {
    has_ended_ = true;
    return disarm(time);
  }
  /// The engine calls rang() in time_is_up(). Returns true if end() was called before. In that case the engine must
  /// complete the call now.
  [[nodiscard]] bool rang() noexcept {
    is_armed_ = false;
    return has_ended_;
  }
  bool has_ended() const noexcept { return has_ended_; }

 private:
  bool disarm(time_source& time) noexcept {
    if (is_armed_ && !time.cancel(*this)) return false;
    is_armed_ = false;
    return true;
  }

  Call* call_;
  bool is_armed_ = false;  // whether the deadline is set, and neither disarm() nor rang() has cleared it
  bool has_ended_ = false;
};

}  // namespace canigo::detail
