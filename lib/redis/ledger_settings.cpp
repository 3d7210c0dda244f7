// What is changed while a limit is in use, and what can be said without asking Redis.
#include "canigo/error.hpp"

#include "ledger.hpp"
#include "ledger_change.hpp"

#include <algorithm>
#include <mutex>
#include <system_error>
#include <tuple>

namespace canigo::redis::detail {

using canigo::detail::throw_invalid;

// ---- what lies idle here --------------------------------------------------------------------------------------------

void ledger::put_idle(std::uint64_t n, time_point now) noexcept {
  if (idle_ == 0) {
    if (options_.rate) {
      // Twice as many as were used up in time, up to what comes in within the horizon.
      const auto within = static_cast<double>(options_.horizon.count()) / 1000 / static_cast<double>(settings_.period) *
                          static_cast<double>(settings_.tokens);
      const auto most_ahead = std::min<double>(static_cast<double>(settings_.burst), std::max(1.0, within));
      ahead_ = std::min(ahead_ * 2, static_cast<std::uint64_t>(most_ahead));
    }
    idle_until_ = saturating_add(now, options_.horizon);
  }
  idle_ += n;
}

void ledger::give_back_idle() noexcept {
  if (idle_ == 0) return;
  if (options_.rate) {
    charged_ -= static_cast<std::int64_t>(idle_);
    must_be_told();
    ahead_ = 1;
  }
  idle_ = 0;
  must_tell_ = true;
}

bool ledger::is_idle_enough(const request& r, time_point now) const noexcept {
  if (idle_ < r.tokens || !waiting_.empty() || now < paused_until_ || now >= idle_until_) return false;
  return options_.rate || awake_or_not() < lease_until_;
}

bool ledger::try_acquire(const request& r, permit* granted) {
  const change c{*this};
  if (context_gone_) return false;
  const time_point now = time_->now();
  if (const auto ec = why_not(r, now)) {
    if (ec == errc::stopped || ec == errc::deadline_unreachable) return false;
    throw std::system_error{ec};
  }
  if (!is_idle_enough(r, now)) return false;
  if (granted != nullptr) *granted = hold(next_id_++, r.tokens, last_token_);
  idle_ -= r.tokens;
  ++stats_.granted_ahead;
  count_grant(r.priority, duration::zero());
  return true;
}

duration ledger::time_of(double tokens) const noexcept {
  const double ns = tokens * static_cast<double>(settings_.period) / static_cast<double>(settings_.tokens) * 1000;
  return ns < static_cast<double>(duration::max().count()) ? duration{static_cast<duration::rep>(ns)} : duration::max();
}

duration ledger::estimate(const request& r) const {
  const std::lock_guard lock{mutex_};
  if (context_gone_) return duration::max();
  const time_point now = time_->now();
  duration wait = std::max({now, paused_until_, closed_until_}) - now;
  const bool is_here = wait == duration::zero() && is_idle_enough(r, now);
  if (empty_at_ != time_point::min() && !is_here) {
    auto tokens = static_cast<double>(r.tokens);
    for (const auto& [place, w] : waiting_) {
      if (std::get<0>(place) <= r.priority) tokens += static_cast<double>(w->wanted_.tokens);
    }
    // What comes in from when the bucket was empty, but no more than fits: by spans, which no clock is too young for.
    const duration full = time_of(static_cast<double>(settings_.burst));
    const duration empty_in = saturating_add(empty_at_, full) <= now ? -full : empty_at_ - now;
    wait = std::max(wait, saturating_add(time_point{empty_in}, time_of(tokens)).time_since_epoch());
  }
  return wait;
}

// ---- settings -------------------------------------------------------------------------------------------------------

void ledger::adopt(const limit_settings& s, time_point now) noexcept {
  // What was changed here meanwhile is still to be told.
  settings_.version = s.version;
  if ((unsaid_ & setting::permits) == 0) settings_.permits = s.permits;
  if ((unsaid_ & setting::rate) == 0 && s.tokens != 0) {
    settings_.tokens = s.tokens;
    settings_.period = s.period;
  }
  if ((unsaid_ & setting::burst) == 0) settings_.burst = s.burst;
  if ((unsaid_ & setting::pause) == 0) {
    paused_until_ = s.pause < 0    ? time_point::max()
                    : s.pause == 0 ? time_point::min()
                                   : saturating_add(now, std::chrono::microseconds{s.pause});
  }
  // Redis has told those who weigh too much now, and knows them no more; but a message may be lost.
  for (auto p = waiting_.begin(); p != waiting_.end();) {
    limit_waiter& w = *(p++)->second;
    if (w.wanted_.tokens <= most()) continue;
    take_out(w);
    finish(w, errc::too_large);
  }
}

void ledger::set_permits(std::uint64_t n) {
  const change c{*this};
  settings_.permits = n;
  unsaid_ |= setting::permits;
  must_be_told();
  give_back_idle();
}

void ledger::set_rate(const canigo::rate& r) {
  const change c{*this};
  std::tie(settings_.tokens, settings_.period) = in_micros(r, settings_.burst);
  unsaid_ |= setting::rate;
  must_be_told();
}

void ledger::set_burst(std::uint64_t n) {
  const change c{*this};
  if (n < 1) throw_invalid("scheduler.set_burst: burst", n, "1 to 2^31");
  const canigo::rate now{static_cast<std::int64_t>(settings_.tokens), std::chrono::microseconds{settings_.period}};
  (void)in_micros(now, n);
  settings_.burst = n;
  unsaid_ |= setting::burst;
  must_be_told();
}

void ledger::pause_until(time_point t) {
  const change c{*this};
  if (context_gone_) return;
  paused_until_ = t <= time_->now() ? time_point::min() : t;
  unsaid_ |= setting::pause;
  must_be_told();
  if (options_.rate) give_back_idle();
}

void ledger::charge(std::int64_t tokens) {
  const change c{*this};
  charged_ += tokens;
  must_be_told();
}

}  // namespace canigo::redis::detail
