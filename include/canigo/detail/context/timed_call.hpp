#pragma once

#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

namespace canigo::detail {

/// The deadline of a call that waits in an engine, and whether the call has ended. All under the engine's lock.
///
/// Another thread may be calling the deadline just now. Then the call must stay until that thread has reached the
/// engine by `Call::time_is_up(due)`. There the engine asks rang(), and does what it could not do before.
template <class Call>
class timed_call : public deadline {
 public:
  explicit timed_call(Call& c) noexcept
      : deadline{[](deadline& d, due why) noexcept { static_cast<timed_call&>(d).call_->time_is_up(why); }},
        call_{&c} {}

  /// Moves it to `when`; time_point::max() takes it back. Does nothing if it is being called just now.
  void set(time_source& time, time_point when) noexcept {
    if (disarm(time)) is_armed_ = when != time_point::max() && time.arm(*this, when);
  }
  /// The call has ended. Whether it may be handed over now: if not, rang() says when.
  [[nodiscard]] bool end(time_source& time) noexcept {
    has_ended_ = true;
    return disarm(time);
  }
  /// Its time is up. True if the call has ended meanwhile: then it is to be handed over now.
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
  bool is_armed_ = false;  // until it was called, or taken back
  bool has_ended_ = false;
};

}  // namespace canigo::detail
