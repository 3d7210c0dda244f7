#include "gateway/upstream/upstream_limit.hpp"

#include "gateway/policy/target_choice.hpp"
#include "gateway/policy/wire_window.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace canigo::gateway {
namespace {

/// Returns how many calls of this instance may wait for a grant of Redis at the same time. Each of them holds a permit
/// of this instance's limit meanwhile. Unlimited if `u` is not shared, because its calls need no grant of Redis.
std::uint64_t ahead_of(const upstream& u) noexcept { return u.shared ? most_ahead : unlimited; }

limiter_options limiter_options_of(const config& c, const upstream& u) {
  limiter_options o;
  o.rates = on_the_wire(u.rates);
  o.concurrency = u.targets.empty() ? std::min(own_concurrency(u), ahead_of(u)) : own_concurrency(u);
  for (const target& t : u.targets) {
    o.alternatives.push_back({.name = t.name,
                              .rates = on_the_wire(t.rates),
                              .concurrency = std::min(own_concurrency(u, t), ahead_of(u)),
                              .prefer = t.prefer});
  }
  o.sublimits = model_limits::options_of(u.models);
  o.priorities = static_cast<int>(c.classes.size());
  o.queue_limit = u.queue;
  o.on_overflow = u.on_overflow;
  o.ageing = c.ageing;
  return o;
}

std::vector<std::string> units_of(const upstream& u) {
  std::vector<std::string> units;
  const auto add = [&units](const std::vector<rate_limit>& rates) {
    for (const rate_limit& r : rates) {
      if (std::ranges::find(units, r.unit) == units.end()) units.push_back(r.unit);
    }
  };
  add(u.rates);
  for (const target& t : u.targets) add(t.rates);
  for (const model_limit& m : u.models) add(m.rates);
  return units;
}

limit_terms terms_of(const upstream& u) { return {u.rates, u.concurrency}; }

/// Returns the limits of an upstream without a list of targets: its rates, and the concurrency that this instance may
/// use.
limit_terms own_terms(const upstream& u) { return {u.rates, own_concurrency(u)}; }

std::vector<model_limit> both(std::vector<model_limit> a, const std::vector<model_limit>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    limit_terms common = both(limit_terms{a[i].rates, a[i].concurrency}, {b[i].rates, b[i].concurrency});
    a[i].rates = std::move(common.rates);
    a[i].concurrency = common.concurrency;
  }
  return a;
}

std::vector<limit_terms> terms_of_targets(const upstream& u) {
  std::vector<limit_terms> all;
  for (const target& t : u.targets) all.push_back({t.rates, own_concurrency(u, t)});
  return all;
}

std::vector<std::vector<target_set>> substitutes_of_targets(const upstream& u) {
  std::vector<std::vector<target_set>> all;
  for (std::size_t i = 0; i < u.targets.size(); ++i) all.push_back(substitutes(u, i));
  return all;
}

}  // namespace

upstream_limit::upstream_limit(const net::any_io_executor& executor, const config& c, const upstream& u,
                               redis::client* store)
    : units_{units_of(u)},
      has_list_{!u.targets.empty()},
      local_{executor, limiter_options_of(c, u)},
      models_{local_, u.models},
      substitutes_{substitutes_of_targets(u)},
      terms_{terms_of(u)},
      of_targets_{terms_of_targets(u)},
      of_models_{u.models},
      executor_{executor},
      priorities_{static_cast<int>(c.classes.size())},
      ageing_{c.ageing} {
  take_messages(u);
  if (u.shared && store != nullptr) shared_ = std::make_unique<redis_limit>(*store, c, u);
  for (std::size_t i = 0; i < of_targets_.size(); ++i) {
    targets_.push_back(
        std::make_unique<target_limit>(limit_part{local_.alternative(i)}, of_targets_[i], u.breaker, ahead_of(u)));
  }
  if (!has_list_)
    targets_.push_back(std::make_unique<target_limit>(limit_part{local_}, own_terms(u), u.breaker, ahead_of(u)));
}

std::size_t upstream_limit::number_of(std::string_view unit) const noexcept {
  return static_cast<std::size_t>(std::ranges::find(units_, unit) - units_.begin());
}

request upstream_limit::ask_all(const request& ask, const permit& local, time_point& again_at) const {
  request all = ask;
  if (!has_list_) return all;
  const time_point now = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const target_set bit = target_set{1} << i;
    if (i == local.alternative() || (ask.alternatives & bit) == 0) continue;
    const time_point at = targets_[i]->takes_call_at(now);
    if (at <= now) continue;
    all.alternatives &= ~bit;
    again_at = std::min(again_at, at);
  }
  return all;
}

std::optional<upstream_place> upstream_limit::enter(permit local, redis::permit shared, target_set& full) {
  const bool has_chosen = has_list_ && shared_ != nullptr && shared_->has_chosen(shared);
  const bool is_moved = has_chosen && shared.alternative() != local.alternative();
  if (is_moved) local.move_to(shared.alternative());
  // If Redis keeps only the rates and no caps, it may have chosen a target whose cap is used up in this instance.
  if (is_moved && !shared_->has_leases() && is_over_cap(local.alternative())) {
    full |= target_set{1} << local.alternative();
    give_back(local, shared);
    return std::nullopt;
  }
  const std::size_t target = has_list_ ? local.alternative() : 0;
  const time_point now = std::chrono::steady_clock::now();
  // Redis has chosen this target, but the target may have been paused while the call waited for Redis.
  if (has_chosen && targets_[target]->takes_call_at(now) > now) {
    give_back(local, shared);
    return std::nullopt;
  }
  if (const auto p = targets_[target]->enter())
    return upstream_place{*this, target, std::move(local), std::move(shared), *p};
  give_back(local, shared);
  return std::nullopt;
}

/// Whether more calls hold a permit of the target than its `concurrency` allows.
bool upstream_limit::is_over_cap(std::size_t target) const {
  const std::lock_guard lock{mutex_};
  return local_.stats().alternatives[target].held > of_targets_[target].concurrency;
}

void upstream_limit::pause(std::size_t target, time_point until) {
  targets_[target]->pause(until);
  if (shared_ != nullptr) shared_->pause_until(target, until);
}

/// Whether one of the target's models would have no target left if this target were paused. This is so if all other
/// targets that serve the model are paused for a rejected key or for failures.
bool upstream_limit::is_last(std::size_t target) const {
  if (!has_list_) return true;
  target_set others = 0;
  for (std::size_t i = 0; i < targets_.size(); ++i)
    if (i != target && !targets_[i]->is_out()) others |= target_set{1} << i;
  return std::ranges::any_of(substitutes_[target], [&](target_set s) { return (s & others) == 0; });
}

bool upstream_limit::refuse_key(std::size_t target, time_point started) {
  const std::lock_guard lock{mutex_};
  return !is_last(target) && targets_[target]->refuse_key(started);
}

bool upstream_limit::note_failure(std::size_t target, time_point started) {
  const std::lock_guard lock{mutex_};
  return targets_.size() > 1 && targets_[target]->note_failure(started, !is_last(target));
}

void upstream_limit::lower(std::size_t target, const told_limits& told) { targets_[target]->lower(told); }

void upstream_limit::pause_by_operator(time_point until, std::optional<std::size_t> target) {
  for (std::size_t i = 0; i < targets_.size(); ++i)
    if (i == target.value_or(i)) targets_[i]->pause_by_operator(until);
}

void upstream_limit::resume_by_operator(std::optional<std::size_t> target) {
  for (std::size_t i = 0; i < targets_.size(); ++i)
    if (i == target.value_or(i)) targets_[i]->resume_by_operator();
}

upstream_limit::status upstream_limit::of_target(std::size_t target) const {
  status s = targets_[target]->now();
  if (shared_ != nullptr) s.pauses.extend(pause_cause::upstream, shared_->paused_until(target));
  return s;
}

upstream_limit::status upstream_limit::now() const {
  status least = of_target(0);
  std::uint64_t opened = least.opened;
  for (std::size_t i = 1; i < targets_.size(); ++i) {
    status other = of_target(i);
    opened += other.opened;
    if (other.pauses.until() < least.pauses.until()) least = other;
  }
  least.opened = opened;
  return least;
}

/// Applies the rates and caps of `u`. Precondition: mutex_ is locked.
void upstream_limit::take_terms(const upstream& u) {
  if (shared_ != nullptr) shared_->change(terms_.rates, u);
  if (has_list_) {
    limit_part{local_}.change_rates(terms_.rates, u.rates);
    if (terms_.concurrency != u.concurrency) local_.set_concurrency(own_concurrency(u));
  }
  terms_ = terms_of(u);
  of_targets_ = terms_of_targets(u);
  models_.change(u.models);
  of_models_ = u.models;
}

std::shared_ptr<scheduler> upstream_limit::messages() const {
  const std::lock_guard lock{mutex_};
  return messages_;
}

/// Applies the rate of websocket messages. Open websockets keep their limiter, and get the new rate. Precondition:
/// mutex_ is locked, or no other thread knows this object yet.
void upstream_limit::take_messages(const upstream& u) {
  if (!u.websocket || !u.websocket->messages) {
    messages_.reset();
  } else if (messages_ == nullptr) {
    messages_ = std::make_shared<scheduler>(
        executor_, scheduler_options{.rate = *u.websocket->messages, .priorities = priorities_, .ageing = ageing_});
  } else {
    messages_->set_rate(*u.websocket->messages);
  }
}

void upstream_limit::begin_change(const upstream& next) {
  const std::lock_guard lock{mutex_};
  upstream meanwhile = next;
  const limit_terms common = both(terms_, terms_of(next));
  meanwhile.rates = common.rates;
  meanwhile.concurrency = common.concurrency;
  for (std::size_t i = 0; i < of_targets_.size(); ++i) {
    limit_terms t = both(of_targets_[i], {next.targets[i].rates, next.targets[i].concurrency});
    meanwhile.targets[i].rates = std::move(t.rates);
    meanwhile.targets[i].concurrency = t.concurrency;
  }
  meanwhile.models = both(of_models_, next.models);
  take_terms(meanwhile);
  if (!has_list_) targets_.front()->change(own_terms(meanwhile));
  for (std::size_t i = 0; i < of_targets_.size(); ++i) targets_[i]->change(of_targets_[i]);
}

void upstream_limit::end_change(const upstream& next) {
  const std::lock_guard lock{mutex_};
  take_terms(next);
  substitutes_ = substitutes_of_targets(next);
  take_messages(next);
  if (!has_list_) targets_.front()->end_change(own_terms(next), next.breaker);
  for (std::size_t i = 0; i < of_targets_.size(); ++i) targets_[i]->end_change(of_targets_[i], next.breaker);
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
