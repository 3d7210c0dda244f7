#pragma once

#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

namespace canigo::detail {

/// The deadline of a call that waits in an engine. All under the engine's lock.
///
/// Another thread may be calling a deadline just now. Then the call must stay until that thread has reached the engine
/// by `Call::limit_called(due)`, and the engine does there what it could not do before. disarm() says so.
template <class Call>
class call_limit : public deadline {
 public:
  explicit call_limit(Call& c) noexcept
      : deadline{[](deadline& d, due why) noexcept { static_cast<call_limit&>(d).call_->limit_called(why); }},
        call_{&c} {}

  /// Does nothing for time_point::max(). Whether it is armed then.
  bool arm(time_source& time, time_point when) noexcept {
    return is_armed_ = when != time_point::max() && time.arm(*this, when);
  }
  /// False if it is being called just now.
  [[nodiscard]] bool disarm(time_source& time) noexcept {
    if (is_armed_ && !time.cancel(*this)) return false;
    is_armed_ = false;
    return true;
  }
  /// limit_called() has reached the engine.
  void was_called() noexcept { is_armed_ = false; }

 private:
  Call* call_;
  bool is_armed_ = false;  // until it was called, or taken back
};

}  // namespace canigo::detail
