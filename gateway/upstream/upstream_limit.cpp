#include "gateway/upstream/upstream_limit.hpp"

#include "canigo/detail/base/random.hpp"

#include "gateway/policy/wire_window.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

/// How many calls may have a place of this instance before they are under way, as those that wait for Redis.
std::uint64_t ahead_of(const upstream& u) noexcept { return u.shared ? most_ahead : unlimited; }

limiter_options limiter_options_of(const config& c, const upstream& u) {
  limiter_options o;
  o.rates = on_the_wire(u.rates);
  o.concurrency = std::min(own_concurrency(u), ahead_of(u));
  o.priorities = static_cast<int>(c.classes.size());
  o.queue_limit = u.queue;
  o.on_overflow = u.on_overflow;
  o.ageing = c.ageing;
  return o;
}

bool is_slower(const rate& a, const rate& b) noexcept {
  const auto per_nanosecond = [](const rate& r) {
    return static_cast<double>(r.tokens()) / static_cast<double>(r.period().count());
  };
  return per_nanosecond(a) < per_nanosecond(b);
}

std::vector<std::string> units_of(const upstream& u) {
  std::vector<std::string> units;
  for (const rate_limit& r : u.rates) {
    if (std::ranges::find(units, r.unit) == units.end()) units.push_back(r.unit);
  }
  return units;
}

}  // namespace

upstream_limit::upstream_limit(const net::any_io_executor& executor, const config& c, const upstream& u,
                               redis::client* store)
    : units_{units_of(u)},
      local_{executor, limiter_options_of(c, u)},
      rates_{u.rates},
      concurrency_{u.concurrency},
      most_{own_concurrency(u)},
      breaker_{u.breaker, ahead_of(u), clock::now()},
      random_{std::random_device{}()},
      cap_{std::min(most_, ahead_of(u))} {
  if (u.shared && store != nullptr) shared_ = std::make_unique<redis_limit>(*store, c, u);
}

std::size_t upstream_limit::number_of(std::string_view unit) const noexcept {
  return static_cast<std::size_t>(std::ranges::find(units_, unit) - units_.begin());
}

std::optional<upstream_place> upstream_limit::enter(permit local, redis::permit shared) {
  std::optional<upstream_breaker::pass> p;
  {
    const std::lock_guard lock{mutex_};
    const time_point now = clock::now();
    p = breaker_.enter(now);
    if (p) apply_cap(now);
  }
  if (p) return upstream_place{*this, std::move(local), std::move(shared), *p};
  give_back(local, shared);
  return std::nullopt;
}

bool upstream_limit::report(upstream_breaker::pass& p, bool failed) noexcept {
  const std::lock_guard lock{mutex_};
  const time_point now = clock::now();
  const bool opens = breaker_.report(p, failed, now);
  if (opens) {
    ++opened_;
    pauses_.set(pause_cause::breaker, breaker_.open_until(now));
    apply_pauses();
  }
  apply_cap(now);
  return opens;
}

void upstream_limit::leave(const upstream_breaker::pass& p, permit& local) noexcept {
  const std::lock_guard lock{mutex_};
  breaker_.leave(p);
  // Before the permit goes: while the breaker only lets probes through, the end of a call must not admit another one.
  apply_cap(clock::now());
  local.release();
}

/// Sets the limit's concurrency to the cap that the breaker allows.
void upstream_limit::apply_cap(time_point now) {
  const std::uint64_t wanted = std::clamp<std::uint64_t>(breaker_.cap(now), 1, most_);
  if (wanted != std::exchange(cap_, wanted)) local_.set_concurrency(wanted);
}

void upstream_limit::apply_pauses() {
  const time_point until = pauses_.until();
  if (until == time_point::min()) {
    local_.resume();
  } else {
    local_.pause_until(until);
  }
}

void upstream_limit::pause(time_point until) {
  const std::lock_guard lock{mutex_};
  pauses_.extend(pause_cause::upstream, until);
  apply_pauses();
  if (shared_ != nullptr) shared_->pause_until(until);
}

time_point upstream_limit::end_of_growing_pause(std::string_view tenant, time_point started, duration first) {
  const std::lock_guard lock{mutex_};
  auto found = growths_.find(tenant);
  if (found == growths_.end()) found = growths_.emplace(std::string{tenant}, pause_growth{}).first;
  has_growths_.store(true, std::memory_order_relaxed);
  return found->second.refuse(started, clock::now(), canigo::detail::next_random(random_), first);
}

void upstream_limit::note_success(std::string_view tenant, time_point started) {
  if (!has_growths_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock{mutex_};
  const auto found = growths_.find(tenant);
  if (found == growths_.end()) return;
  found->second.succeed(started);
  if (found->second.is_as_new()) growths_.erase(found);
  has_growths_.store(!growths_.empty(), std::memory_order_relaxed);
}

void upstream_limit::lower(const told_limits& told) {
  const std::lock_guard lock{mutex_};
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    if (const auto left = rest_for(told, rates_[i])) local_.lower_tokens(i, tokens_to_keep(rates_[i], *left));
  }
}

void upstream_limit::note_spent(spent_quota q) {
  const std::lock_guard lock{mutex_};
  spent_.note(std::move(q), clock::now());
  has_spent_.store(true, std::memory_order_relaxed);
}

std::optional<spent_quota> upstream_limit::find_spent(std::string_view tenant, std::string_view model) const {
  if (!has_spent_.load(std::memory_order_relaxed)) return std::nullopt;
  const std::lock_guard lock{mutex_};
  const spent_quota* const found = spent_.find(tenant, model, clock::now());
  return found == nullptr ? std::nullopt : std::optional{*found};
}

std::vector<spent_quota> upstream_limit::all_spent() const {
  const std::lock_guard lock{mutex_};
  return spent_.all(clock::now());
}

void upstream_limit::pause_by_operator(time_point until) {
  const std::lock_guard lock{mutex_};
  pauses_.set(pause_cause::operator_, until);
  apply_pauses();
}

void upstream_limit::resume_by_operator() {
  const std::lock_guard lock{mutex_};
  pauses_.end(pause_cause::operator_);
  spent_.forget();
  has_spent_.store(false, std::memory_order_relaxed);
  apply_pauses();
}

upstream_limit::status upstream_limit::now() const {
  const std::lock_guard lock{mutex_};
  const time_point now = clock::now();
  return {breaker_.state(now), breaker_.open_until(now), opened_, pauses_};
}

void upstream_limit::apply_terms(const upstream& u, time_point now) {
  const std::vector<rate_limit> kept = on_the_wire(u.rates);
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    if (!is_same_rate(rates_[i], u.rates[i])) local_.set_rate(i, kept[i].rate);
    if (rates_[i].burst != u.rates[i].burst) local_.set_burst(i, u.rates[i].burst);
  }
  if (shared_ != nullptr) shared_->change(rates_, u);
  rates_ = u.rates;
  concurrency_ = u.concurrency;
  most_ = own_concurrency(u);
  apply_cap(now);
}

void upstream_limit::begin_change(const upstream& next) {
  const std::lock_guard lock{mutex_};
  upstream meanwhile = next;
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    rate_limit& r = meanwhile.rates[i];
    if (is_slower(rates_[i].rate, r.rate)) r.rate = rates_[i].rate;
    r.burst = std::max(r.burst, rates_[i].burst);
  }
  meanwhile.concurrency = std::min(concurrency_, next.concurrency);
  apply_terms(meanwhile, clock::now());
}

void upstream_limit::end_change(const upstream& next) {
  const std::lock_guard lock{mutex_};
  const time_point now = clock::now();
  apply_terms(next, now);
  breaker_.configure(next.breaker, now);
  if (breaker_.state(now) == circuit_state::closed) {
    pauses_.end(pause_cause::breaker);
    apply_pauses();
  }
  apply_cap(now);
}

void upstream_limit::give_back(permit& local) const {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) local.settle(unit, 0);
  local.release();
}

void upstream_limit::give_back(permit& local, redis::permit& shared) const {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) shared.settle(unit, 0);
  shared.release();
  give_back(local);
}

}  // namespace canigo::gateway
