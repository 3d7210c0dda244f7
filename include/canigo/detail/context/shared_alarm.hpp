#pragma once

#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/time/deadline.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <memory>
#include <utility>

namespace canigo {
class time_source;
}

namespace canigo::detail {

// These functions wrap functions of time_source, so this file need not include the header of time_source. now_on()
// returns the time of the executor's context.
time_point now_on(const net::any_io_executor& executor);
time_point now_of(const time_source& time) noexcept;
bool arm(time_source& time, deadline& d, time_point when) noexcept;
[[nodiscard]] bool cancel(time_source& time, deadline& d) noexcept;

/// An alarm that calls a function of its owner. The owner is managed by std::shared_ptr. While the alarm is armed, and
/// during the call of the function, the alarm holds a reference to the owner.
///
/// The owner uses the alarm under its lock or on its strand. The function is called without the lock and outside of the
/// strand, so the function must take the lock or post to the strand. If the function throws, for example because there
/// is no memory, it is called again a millisecond later. If the context is destroyed first, the function is not called.
template <class Owner>
class shared_alarm : public deadline {
 public:
  using function_type = void (*)(Owner&);

  shared_alarm(time_source& time, function_type f) noexcept : deadline{&shared_alarm::called}, time_{time}, call_{f} {}

  bool is_set() const noexcept { return is_set_; }
  time_point when() const noexcept { return when_; }
  /// Sets the alarm to `t`; time_point::max() cancels it. Does nothing if the alarm is set and the call of its function
  /// has already begun.
  void set(time_point t, Owner& owner) noexcept {
    if (is_set_ && t == when_) return;
    std::shared_ptr<Owner> keep;
    if (is_set_) {
      if (!cancel(time_, *this)) return;
      keep = std::move(owner_);
    }
    when_ = t;
    is_set_ = t != time_point::max() && arm(t, keep ? std::move(keep) : owner.shared_from_this());
  }
  /// Call it after the alarm's function was called. Only then can the alarm be set again.
  void was_called() noexcept { is_set_ = false; }
  /// Cancels the alarm permanently. Returns its reference to the owner; null if the alarm is not armed, or the call of
  /// its function has begun.
  [[nodiscard]] std::shared_ptr<Owner> disarm() noexcept { return cancel(time_, *this) ? std::move(owner_) : nullptr; }

 private:
  static void called(deadline& d, due why) noexcept {
    auto& own = static_cast<shared_alarm&>(d);
    std::shared_ptr<Owner> keep = std::move(own.owner_);
    if (why == due::shutdown) return;
    try {
      own.call_(*keep);
    } catch (...) {
      own.arm(saturating_add(now_of(own.time_), retry_after), keep);
    }
  }
  bool arm(time_point t, std::shared_ptr<Owner> keep) noexcept {
    owner_ = std::move(keep);
    if (detail::arm(time_, *this, t)) return true;
    owner_.reset();
    return false;
  }

  time_source& time_;
  function_type call_;
  std::shared_ptr<Owner> owner_;  // the owner; not null while the alarm is armed
  time_point when_ = time_point::max();
  bool is_set_ = false;  // true from set() until was_called() or a cancellation
};

}  // namespace canigo::detail
