#include "canigo/detail/context/engine_alarm.hpp"

#include "canigo/detail/context/delivery.hpp"

#include <utility>

namespace canigo::detail {

engine_alarm::engine_alarm(delivery& engine, function_type f) noexcept
    : deadline{[](deadline& d, due why) noexcept { static_cast<engine_alarm&>(d).rang(why); }},
      engine_{&engine},
      function_{f} {}

void engine_alarm::arm(time_point when) noexcept {
  disarm();
  when_ = when;
  if (!engine_->time_->arm(*this, when)) return;
  is_armed_ = true;
  engine_->add_ref();
}

void engine_alarm::disarm() noexcept {
  if (!std::exchange(is_armed_, false)) return;
  if (engine_->time_->cancel(*this)) engine_->release_ref();
}

void engine_alarm::rang(due why) noexcept {
  delivery& engine = *engine_;
  {
    const delivery::change c{engine};
    if (is_armed_ && (why == due::shutdown || engine.time_->now() >= when_)) {
      is_armed_ = false;
      // The alarm may have been set again after this call had begun. If the new deadline has passed, too, this call
      // handles both deadlines: it cancels the alarm that was set again, and releases that alarm's reference.
      if (why == due::expired && engine.time_->cancel(*this)) engine.release_ref();
      if (why == due::expired) function_(engine, *this);
    }
  }
  engine.release_ref();
}

}  // namespace canigo::detail
