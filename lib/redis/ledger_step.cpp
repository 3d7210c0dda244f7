// What a ledger does of itself: when there is something to tell Redis or to ask it, and when to look again.
#include "ledger.hpp"
#include "ledger_change.hpp"

#include <asio/post.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

namespace canigo::redis::detail {

void ledger::alarm_called() noexcept {
  const auto keep = shared_from_this();
  const change c{*this};
  alarm_armed_ = false;
  self_.reset();
  may_send_ = true;
}

void ledger::post_turn() noexcept {
  // The context waits for the lock before it goes.
  const std::lock_guard lock{mutex_};
  if (context_gone_) return;
  try {
    net::post(executor_, [self = shared_from_this()] { self->turn(); });
  } catch (...) {
    turn_posted_ = false;
    set_alarm(saturating_add(time_->now(), delivery_retry));
  }
}

void ledger::turn() noexcept {
  const change c{*this};
  turn_posted_ = false;
  may_send_ = true;
}

bool ledger::is_leaving() const noexcept { return closing_ && held_ == 0; }

void ledger::step() noexcept {
  const bool may_send = std::exchange(may_send_, false);
  if (context_gone_) return;
  const time_point now = time_->now();
  if (is_registered_ && awake_or_not() >= lease_until_) lose_session();
  if (idle_until_ <= now) {
    give_back_idle();
    idle_until_ = time_point::max();
  }
  if (is_late(now) && !std::exchange(is_decided_, true)) answer_is_late(now);
  if (may_do_without(now)) grant_without_redis(now);
  if (is_failing_ && tell_until_ <= now) {
    unsaid_ = 0;
    charged_ = charged_and_answered_;
  }
  if (!under_way_ && wants_call(now)) {
    if (may_send) {
      try {
        call_ = prepare(now);
        under_way_ = true;
      } catch (...) {
        retry_at_ = saturating_add(now, delivery_retry);
      }
    } else {
      turn_wanted_ = true;
    }
  }
  if (!is_engaged()) {
    listen(false);
  } else if (!under_way_ && is_registered_ && now >= listen_after_ &&
             (!asked_.empty() || options_.horizon > duration::zero())) {
    listen(true);
  }
  set_alarm(next_step(now));
}

/// Whether there is something to tell that can't wait for the next renewal. Where Redis does not answer and nobody
/// needs it, the waiters that gave up are forgotten with the session.
bool ledger::has_news() const noexcept {
  if (unsaid_ != 0 || charged_ != charged_and_answered_) return true;
  if (is_failing_ && !is_engaged() && !may_hold_there_) return false;
  return is_registered_ && (must_tell_ || !cancels_.empty());
}

/// Whether there is something to say or to ask as soon as Redis may be called.
bool ledger::is_due() const noexcept {
  if (is_leaving()) return is_registered_ && !is_failing_;
  if (is_failing_ && is_wanted_) return true;  // also where nobody is left, who was let through or told that it fails
  return has_news() || (is_engaged() && (!fresh_.empty() || is_hinted_));
}

bool ledger::wants_call(time_point now) const noexcept {
  if (now < retry_at_) return false;
  if (is_due() || is_leaving()) return is_due();
  return (is_engaged() && now >= renew_at_) || (!waiting_.empty() && now >= next_at_);
}

time_point ledger::next_step(time_point now) const noexcept {
  time_point t = time_point::max();
  if (!under_way_ && !turn_posted_ && !turn_wanted_) {
    if (is_due()) {
      t = std::max(retry_at_, now);
    } else if (is_engaged() && !is_leaving()) {
      t = renew_at_;
      if (!waiting_.empty()) t = std::min(t, next_at_);
      t = std::max(t, retry_at_);
    }
  }
  if (held_ > 0) t = std::min(t, saturating_add(now, duration{lease_until_ - awake_or_not()}));
  if (under_way_ && !is_decided_ && !waiting_.empty()) t = std::min(t, std::max(late_at_, now));
  t = std::min(t, idle_until_);
  if (!waiting_.empty() && may_do_without(now)) t = std::min(t, local_at_);
  return t;
}

void ledger::set_alarm(time_point when) noexcept {
  if (alarm_armed_) {
    // One that rings too early looks again, which costs less than to set it anew whenever it is due later. One that
    // rings for nothing would keep the loop running.
    const bool looks_again = when != time_point::max() || under_way_ || turn_wanted_ || turn_posted_;
    if (alarm_at_ <= when && looks_again) return;
    if (!time_->cancel(alarm_)) return;  // it is being called just now, and looks again
    alarm_armed_ = false;
  }
  alarm_at_ = when;
  if (when != time_point::max()) alarm_armed_ = time_->arm(alarm_, when);
  if (alarm_armed_ != (self_ != nullptr)) self_ = alarm_armed_ ? shared_from_this() : nullptr;
}

}  // namespace canigo::redis::detail
