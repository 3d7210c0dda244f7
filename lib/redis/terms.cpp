#include "terms.hpp"

#include "canigo/error.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

namespace canigo::redis::detail {
namespace {

using canigo::detail::throw_invalid;
using std::chrono::microseconds;

constexpr std::uint64_t exact_in_lua = std::uint64_t{1} << 53;
constexpr std::uint64_t most_tokens = std::uint64_t{1} << 31;

/// Tokens and their period in microseconds, which Redis' clock counts.
std::pair<std::uint64_t, std::uint64_t> in_micros(const canigo::rate& r, std::uint64_t burst) {
  const auto least = r.reduced();
  auto tokens = static_cast<std::uint64_t>(least.tokens());
  auto period = static_cast<std::uint64_t>(least.period().count());
  if (period % 1000 == 0) {
    period /= 1000;
  } else {
    tokens *= 1000;
  }
  if (burst > most_tokens || burst * std::max(tokens, period / tokens + 1) >= exact_in_lua) {
    throw_invalid("scheduler_options.burst", burst, "less, at this rate: burst times period below 2^53 us");
  }
  return {tokens, period};
}

}  // namespace

terms::terms(std::uint64_t permits, const std::optional<canigo::rate>& rate, std::uint64_t burst)
    : is_rate_{rate.has_value()} {
  settings_.permits = permits;
  settings_.burst = burst;
  if (rate) adopt_rate(*rate, burst);
}

void terms::adopt_rate(const canigo::rate& r, std::uint64_t burst) {
  std::tie(settings_.tokens, settings_.period) = in_micros(r, burst);
}

// ---- changes --------------------------------------------------------------------------------------------------------

void terms::set_permits(std::uint64_t n, time_point tell_until) noexcept {
  settings_.permits = n;
  unsaid_ |= setting::permits;
  tell_until_ = tell_until;
}

void terms::set_rate(const canigo::rate& r, time_point tell_until) {
  adopt_rate(r, settings_.burst);
  unsaid_ |= setting::rate;
  tell_until_ = tell_until;
}

void terms::set_burst(std::uint64_t n, time_point tell_until) {
  if (n < 1) throw_invalid("scheduler.set_burst: burst", n, "1 to 2^31");
  const canigo::rate now{static_cast<std::int64_t>(settings_.tokens), microseconds{settings_.period}};
  adopt_rate(now, n);
  settings_.burst = n;
  unsaid_ |= setting::burst;
  tell_until_ = tell_until;
}

void terms::pause_until(time_point t, time_point now, time_point tell_until) noexcept {
  paused_until_ = t <= now ? time_point::min() : t;
  unsaid_ |= setting::pause;
  tell_until_ = tell_until;
}

void terms::charge(std::int64_t tokens, time_point tell_until) noexcept {
  charged_ += tokens;
  tell_until_ = tell_until;
}

void terms::forget_overdue(time_point now) noexcept {
  if (tell_until_ > now) return;
  unsaid_ = 0;
  charged_ = charged_and_answered_;
}

// ---- calls ----------------------------------------------------------------------------------------------------------

void terms::write(sync_call& s, time_point now) const noexcept {
  s.settings = settings_;
  s.settings.pause = paused_until_ == time_point::max() ? -1
                     : paused_until_ <= now             ? 0
                                                        : std::chrono::ceil<microseconds>(paused_until_ - now).count();
  s.changes = unsaid_;
  s.charged_before = charged_and_answered_;
  s.charged = charged_;
}

void terms::call_begins() noexcept {
  unsaid_under_way_ = std::exchange(unsaid_, 0);
  charged_under_way_ = charged_;
}

void terms::tell_again() noexcept { unsaid_ |= std::exchange(unsaid_under_way_, 0); }

void terms::told() noexcept { unsaid_under_way_ = 0; }

void terms::adopt(const limit_settings& s, time_point now) noexcept {
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
                                   : saturating_add(now, microseconds{s.pause});
  }
}

// ---- estimates ------------------------------------------------------------------------------------------------------

void terms::heard(time_point called_at, duration quarantine, duration empty_in) noexcept {
  closed_until_ = saturating_add(called_at, quarantine);
  empty_at_ = saturating_add(called_at, empty_in);
}

time_point terms::opens_at(time_point now) const noexcept { return std::max({now, paused_until_, closed_until_}); }

duration terms::time_of(double tokens) const noexcept {
  const double ns = tokens * static_cast<double>(settings_.period) / static_cast<double>(settings_.tokens) * 1000;
  return ns < static_cast<double>(duration::max().count()) ? duration{static_cast<duration::rep>(ns)} : duration::max();
}

duration terms::time_until(double tokens, time_point now) const noexcept {
  if (empty_at_ == time_point::min()) return duration::zero();
  // Tokens come in from when the bucket was empty, but no more than fit. In spans, because a time so long ago may lie
  // before the beginning of the clock.
  const duration full = time_of(static_cast<double>(settings_.burst));
  const duration empty_in = saturating_add(empty_at_, full) <= now ? -full : empty_at_ - now;
  return saturating_add(time_point{empty_in}, time_of(tokens)).time_since_epoch();
}

}  // namespace canigo::redis::detail
