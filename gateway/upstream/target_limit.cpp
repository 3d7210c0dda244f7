#include "gateway/upstream/target_limit.hpp"

#include "canigo/detail/base/random.hpp"

#include "gateway/policy/wire_window.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <type_traits>
#include <utility>

namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

bool is_slower(const rate& a, const rate& b) noexcept {
  const auto per_nanosecond = [](const rate& r) {
    return static_cast<double>(r.tokens()) / static_cast<double>(r.period().count());
  };
  return per_nanosecond(a) < per_nanosecond(b);
}

}  // namespace

limit_terms both(const limit_terms& a, const limit_terms& b) {
  limit_terms common = b;
  common.concurrency = std::min(a.concurrency, b.concurrency);
  for (std::size_t i = 0; i < common.rates.size(); ++i) {
    rate_limit& r = common.rates[i];
    if (is_slower(a.rates[i].rate, r.rate)) r.rate = a.rates[i].rate;
    r.burst = std::max(r.burst, a.rates[i].burst);
  }
  return common;
}

template <class Do>
void limit_part::with(Do what) {
  std::visit(
      [&](auto& of) {
        if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(of)>>) {
          what(*of);
        } else {
          what(of);
        }
      },
      of_);
}

void limit_part::pause_until(time_point t) {
  with([t](auto& of) { of.pause_until(t); });
}

void limit_part::resume() {
  with([](auto& of) { of.resume(); });
}

void limit_part::set_concurrency(std::uint64_t concurrency) {
  with([concurrency](auto& of) { of.set_concurrency(concurrency); });
}

void limit_part::lower_tokens(std::size_t index, std::uint64_t most) {
  with([=](auto& of) { of.lower_tokens(index, most); });
}

void limit_part::change_rates(const std::vector<rate_limit>& now, const std::vector<rate_limit>& next) {
  with([&](auto& of) { gateway::change_rates(of, now, next); });
}

target_limit::target_limit(limit_part at, limit_terms terms, const breaker_options& b, std::uint64_t ahead)
    : limit_{at},
      terms_{std::move(terms)},
      breaker_{b, ahead, clock::now()},
      random_{std::random_device{}()},
      cap_{std::min(terms_.concurrency, ahead)} {}

std::optional<upstream_breaker::pass> target_limit::enter() {
  const std::lock_guard lock{mutex_};
  const time_point now = clock::now();
  auto p = breaker_.enter(now);
  if (p) apply_cap(now);
  return p;
}

bool target_limit::report(upstream_breaker::pass& p, bool failed) noexcept {
  const std::lock_guard lock{mutex_};
  const time_point now = clock::now();
  const bool opens = breaker_.report(p, failed, now);
  note_report(opens, now);
  return opens;
}

bool target_limit::report_broken_off(const upstream_breaker::pass& p) noexcept {
  const std::lock_guard lock{mutex_};
  const time_point now = clock::now();
  const bool opens = breaker_.report_broken_off(p, now);
  note_report(opens, now);
  return opens;
}

/// Applies the pause and the cap of the circuit breaker after the end of a call was reported to the breaker. `opens`:
/// whether that report has opened the breaker.
void target_limit::note_report(bool opens, time_point now) {
  if (opens) {
    ++opened_;
    pauses_.set(pause_cause::breaker, breaker_.open_until(now));
    apply_pauses();
  }
  apply_cap(now);
}

void target_limit::leave(const upstream_breaker::pass& p, permit& local) noexcept {
  const std::lock_guard lock{mutex_};
  breaker_.leave(p);
  // The cap is lowered before the permit is released. Otherwise the release could admit another call while the breaker
  // lets only probes through.
  apply_cap(clock::now());
  local.release();
}

/// Sets the limit's concurrency to the cap that the breaker now allows.
void target_limit::apply_cap(time_point now) {
  const std::uint64_t wanted = std::clamp<std::uint64_t>(breaker_.cap(now), 1, terms_.concurrency);
  if (wanted != std::exchange(cap_, wanted)) limit_.set_concurrency(wanted);
}

void target_limit::apply_pauses() {
  const time_point until = pauses_.until();
  if (until == time_point::min()) {
    limit_.resume();
  } else {
    limit_.pause_until(until);
  }
}

void target_limit::pause(time_point until) {
  const std::lock_guard lock{mutex_};
  pauses_.extend(pause_cause::upstream, until);
  apply_pauses();
}

time_point target_limit::end_of_growing_pause(std::string_view tenant, time_point started, duration first) {
  const std::lock_guard lock{mutex_};
  auto found = growths_.find(tenant);
  if (found == growths_.end()) found = growths_.emplace(std::string{tenant}, pause_growth{}).first;
  has_growths_.store(true, std::memory_order_relaxed);
  return found->second.refuse(started, clock::now(), canigo::detail::next_random(random_), first);
}

void target_limit::note_success(std::string_view tenant, time_point started) {
  if (!has_growths_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock{mutex_};
  key_.succeed(started);
  if (const auto found = growths_.find(tenant); found != growths_.end()) {
    found->second.succeed(started);
    if (found->second.is_as_new()) growths_.erase(found);
  }
  keep_growths();
}

void target_limit::note_whole_response(time_point started) {
  if (!has_growths_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock{mutex_};
  failing_.succeed(started);
  failures_ = 0;
  keep_growths();
}

/// Sets has_growths_: whether there is a value that a successful call resets, such as a pause that has grown, or the
/// number of failures.
void target_limit::keep_growths() {
  const bool has_any = !growths_.empty() || !key_.is_as_new() || !failing_.is_as_new() || failures_ > 0;
  has_growths_.store(has_any, std::memory_order_relaxed);
}

void target_limit::lower(const told_limits& told) {
  const std::lock_guard lock{mutex_};
  for (std::size_t i = 0; i < terms_.rates.size(); ++i) {
    const rate_limit& r = terms_.rates[i];
    if (const auto left = rest_for(told, r)) limit_.lower_tokens(i, tokens_to_keep(r, *left));
  }
}

void target_limit::note_spent(spent_quota q) {
  const std::lock_guard lock{mutex_};
  spent_.note(std::move(q), clock::now());
  has_spent_.store(true, std::memory_order_relaxed);
}

std::optional<spent_quota> target_limit::find_spent(std::string_view tenant, std::string_view model) const {
  if (!has_spent_.load(std::memory_order_relaxed)) return std::nullopt;
  const std::lock_guard lock{mutex_};
  const spent_quota* const found = spent_.find(tenant, model, clock::now());
  return found == nullptr ? std::nullopt : std::optional{*found};
}

std::vector<spent_quota> target_limit::all_spent() const {
  const std::lock_guard lock{mutex_};
  return spent_.all(clock::now());
}

void target_limit::pause_by_operator(time_point until) {
  const std::lock_guard lock{mutex_};
  pauses_.set(pause_cause::operator_, until);
  apply_pauses();
}

void target_limit::resume_by_operator() {
  const std::lock_guard lock{mutex_};
  pauses_.end(pause_cause::operator_);
  forget_failures();
  spent_.forget();
  has_spent_.store(false, std::memory_order_relaxed);
  apply_pauses();
}

bool target_limit::refuse_key(time_point started) {
  const std::lock_guard lock{mutex_};
  if (started < key_since_) return false;
  const time_point end = key_.refuse(started, clock::now(), canigo::detail::next_random(random_), pause_growth::of_key,
                                     pause_growth::longest_of_key);
  has_growths_.store(true, std::memory_order_relaxed);
  pauses_.extend(pause_cause::key, end);
  apply_pauses();
  return true;
}

bool target_limit::note_failure(time_point started, bool may_rest) {
  const std::lock_guard lock{mutex_};
  // The first failure causes no pause, because a single failure may be the fault of the call.
  has_growths_.store(true, std::memory_order_relaxed);
  if (++failures_ < 2 || !may_rest) return false;
  const time_point end = failing_.refuse(started, clock::now(), canigo::detail::next_random(random_));
  pauses_.extend(pause_cause::failures, end);
  apply_pauses();
  return true;
}

bool target_limit::is_out() const {
  const std::lock_guard lock{mutex_};
  return std::max(pauses_.until(pause_cause::key), pauses_.until(pause_cause::failures)) > clock::now();
}

time_point target_limit::takes_call_at(time_point now) const {
  // The end of a running probe can't be predicted. So while running probes keep other calls out, the result is `now`
  // plus this delay.
  constexpr duration until_next_look = std::chrono::seconds{1};
  const std::lock_guard lock{mutex_};
  if (pauses_.until() > now) return pauses_.until();
  return breaker_.cap(now) > breaker_.under_way() ? now : now + until_next_look;
}

void target_limit::forget_failures() noexcept {
  key_ = {};
  key_since_ = clock::now();
  pauses_.end(pause_cause::key);
  failing_ = {};
  failures_ = 0;
  pauses_.end(pause_cause::failures);
}

target_limit::status target_limit::now() const {
  const std::lock_guard lock{mutex_};
  const time_point now = clock::now();
  return {breaker_.state(now), breaker_.open_until(now), opened_, pauses_};
}

void target_limit::apply(limit_terms next, time_point now) {
  limit_.change_rates(terms_.rates, next.rates);
  terms_ = std::move(next);
  apply_cap(now);
}

void target_limit::change(limit_terms next) {
  const std::lock_guard lock{mutex_};
  apply(std::move(next), clock::now());
}

void target_limit::end_change(limit_terms next, const breaker_options& b) {
  const std::lock_guard lock{mutex_};
  const time_point now = clock::now();
  apply(std::move(next), now);
  breaker_.configure(b, now);
  if (breaker_.state(now) == circuit_state::closed) pauses_.end(pause_cause::breaker);
  forget_failures();
  apply_pauses();
  apply_cap(now);
}

}  // namespace canigo::gateway
