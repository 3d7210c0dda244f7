#include "gateway/upstream/upstream_queue.hpp"

#include "gateway/policy/limit_names.hpp"
#include "gateway/policy/quota_resets.hpp"
#include "gateway/policy/target_choice.hpp"
#include "gateway/policy/wire_window.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

namespace canigo::gateway {
namespace {

// The max number of idle connections that one event loop keeps.
constexpr std::uint64_t most_connections = 4096;

std::size_t connections_of(const upstream& u) { return std::min(u.concurrency, most_connections); }

std::vector<upstream> settings_at_targets(const upstream& u) {
  std::vector<upstream> all;
  for (const target& t : u.targets) all.push_back(settings_at(u, t));
  return all;
}

flow_options terms_of(const tenant& t, const upstream& u) {
  flow_options o{.weight = t.weight};
  if (const auto own = t.limits.find(u.name); own != t.limits.end()) {
    o.rates = on_the_wire(own->second.rates);
    o.concurrency = own->second.concurrency;
  }
  return o;
}

/// Whether a connection that was made for `a` may be used for `b`: both have the same address, the same TLS setting,
/// and the same rule for private addresses.
bool leads_to_the_same(const upstream& a, const upstream& b) {
  const auto place = [](const upstream& u) {
    return std::tie(u.url.is_tls, u.url.host, u.url.port, u.private_addresses);
  };
  return place(a) == place(b);
}

/// Whether the rates of two flows have the same units, bursts and windows. Tokens and periods of the rates may differ.
bool has_same_bursts(const flow_options& a, const flow_options& b) {
  return std::ranges::equal(a.rates, b.rates, [](const rate_limit& x, const rate_limit& y) {
    return x.unit == y.unit && x.burst == y.burst && x.window == y.window;
  });
}

}  // namespace

upstream_queue::upstream_queue(const config& c, upstream u, const std::vector<net::any_io_executor>& loops,
                               redis::client* store, const upstream_queue* before)
    : upstream_{std::move(u)},
      at_targets_{settings_at_targets(upstream_)},
      tenants_{c.tenants},
      limit_{std::make_shared<upstream_limit>(loops.front(), c, upstream_, store)},
      budget_{std::make_shared<retry_budget>(retry_budget::options{.percent = upstream_.retry.budget})} {
  if (!is_host(upstream_)) {
    for (std::size_t t = 0; t < tenants_.size(); ++t) share_of(t);
  }
  take_pools(before, loops);
}

void upstream_queue::take_pools(const upstream_queue* before, const std::vector<net::any_io_executor>& loops) {
  for (std::size_t i = 0; i < std::max<std::size_t>(at_targets_.size(), 1); ++i) {
    if (before != nullptr && i < before->targets() && leads_to_the_same(before->settings(i), settings(i))) {
      pools_.push_back(before->pools_[i]);
      continue;
    }
    pools_.push_back(std::make_shared<pools>());
    for (const auto& loop : loops)
      pools_.back()->push_back(std::make_unique<link_pool>(loop, connections_of(settings(i))));
  }
}

const std::shared_ptr<flow>& upstream_queue::share_of(std::size_t tenant) const {
  const std::lock_guard lock{mutex_};
  const auto found = shares_.find(tenant);
  return found != shares_.end() ? found->second : shares_.emplace(tenant, make_share(tenant)).first->second;
}

std::shared_ptr<flow> upstream_queue::make_share(std::size_t tenant) const {
  if (!is_host(upstream_) || shares_.size() < most_flows_of_a_host)
    return std::make_shared<flow>(limit_->local(), terms_of(tenants_[tenant], upstream_));
  if (!others_) others_ = std::make_shared<flow>(limit_->local());
  return others_;
}

void upstream_queue::take_over(const upstream_queue& before) {
  const upstream& old = before.upstream_;
  limit_ = before.limit_;
  limit_->begin_change(upstream_);
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    if (settings(i).concurrency == before.settings(i).concurrency || pools_[i] != before.pools_[i]) continue;
    for (const auto& p : *pools_[i]) p->set_most(connections_of(settings(i)));
  }
  if (upstream_.retry.budget == old.retry.budget) budget_ = before.budget_;
  const std::scoped_lock lock{mutex_, before.mutex_};
  shares_.clear();
  others_ = before.others_;
  for (std::size_t t = 0; t < tenants_.size(); ++t) {
    const auto found = std::ranges::find(before.tenants_, tenants_[t].name, &tenant::name);
    const auto number = static_cast<std::size_t>(found - before.tenants_.begin());
    if (before.shares_.contains(number)) {
      shares_.emplace(t, continue_share(t, before, number));
    } else if (!is_host(upstream_)) {
      shares_.emplace(t, make_share(t));
    }
  }
}

std::shared_ptr<flow> upstream_queue::continue_share(std::size_t tenant, const upstream_queue& before,
                                                     std::size_t old) const {
  const std::shared_ptr<flow>& share = before.shares_.at(old);
  if (share == before.others_) return share;
  const flow_options had = terms_of(before.tenants_[old], before.upstream_);
  const flow_options wanted = terms_of(tenants_[tenant], upstream_);
  if (!has_same_bursts(had, wanted)) {
    auto made = make_share(tenant);
    made->extend_pause(share->stats().paused_until);
    return made;
  }
  if (had.weight != wanted.weight) share->set_weight(wanted.weight);
  if (had.concurrency != wanted.concurrency) share->set_concurrency(wanted.concurrency);
  for (std::size_t i = 0; i < wanted.rates.size(); ++i) {
    if (!is_same_rate(had.rates[i], wanted.rates[i])) share->set_rate(i, wanted.rates[i].rate);
  }
  return share;
}

request upstream_queue::ask(std::size_t tenant, int priority, time_point deadline, std::uint64_t tag,
                            std::span<const token_amount> amounts, std::string_view model) const {
  request r{.priority = priority, .deadline = deadline, .flow = share_of(tenant).get(), .tag = tag};
  if (!upstream_.models.empty()) r.sublimit = limit_->models().of(model);
  for (const token_amount& a : amounts) {
    // The unit with the index 0 is the unit that the first rate counts.
    const std::size_t unit = limit_->number_of(a.unit);
    // A request must take at least one token of the first unit. If the call uses no token, this token is given back
    // when the call is settled.
    if (unit == 0) {
      r.tokens = std::max<std::uint64_t>(a.amount, 1);
    } else if (a.amount > 0) {
      r.amounts.add(unit, a.amount);
    }
  }
  return r;
}

std::string upstream_queue::name_of_limit(const wait_reason& why) const {
  const bool is_of_model = why.binds == wait_reason::cause::sublimit;
  return name_of(why, upstream_, is_of_model ? &upstream_.models[limit_->models().entry_of(why.sublimit)] : nullptr);
}

bool upstream_queue::lower_to_most(request& r, std::size_t tenant) const {
  if (limit_->units() == 0) return false;
  const auto& limits = tenants_[tenant].limits;
  const auto own = limits.find(upstream_.name);
  bool is_less = false;
  const model_limit* const of_model =
      r.sublimit == no_sublimit ? nullptr : &upstream_.models[limit_->models().entry_of(r.sublimit)];
  const auto lowered = [&](std::size_t unit, std::uint64_t amount) {
    const std::uint64_t most = most_amount(upstream_, own == limits.end() ? nullptr : &own->second, limit_->unit(unit),
                                           r.alternatives, of_model);
    is_less = is_less || amount > most;
    return std::min(amount, most);
  };
  r.tokens = lowered(0, r.tokens);
  unit_amounts others;
  for (const unit_amount& a : r.amounts) others.add(a.unit, lowered(a.unit.number(), a.amount));
  r.amounts = others;
  return is_less;
}

std::shared_ptr<const std::vector<waiting_request>> upstream_queue::recent_line() {
  constexpr std::size_t most_listed = 50;
  constexpr duration fresh = std::chrono::seconds{1};
  const std::lock_guard lock{line_mutex_};
  const time_point now = std::chrono::steady_clock::now();
  if (!line_ || now - line_made_ >= fresh) {
    line_ = std::make_shared<const std::vector<waiting_request>>(limit().waiting(most_listed));
    line_made_ = now;
  }
  return line_;
}

duration upstream_queue::return_after(const request& refused, std::size_t tenant, duration wait) {
  if (upstream_.rates.empty() || tenants_[tenant].limits.contains(upstream_.name)) return wait;
  duration spacing{};
  for (const rate_limit& r : upstream_.rates) {
    const std::size_t unit = limit_->number_of(r.unit);
    std::uint64_t amount = unit == 0 ? refused.tokens : 0;
    for (const unit_amount& a : refused.amounts)
      if (a.unit.number() == unit) amount = a.amount;
    spacing = std::max(spacing, r.rate.time_for(amount));
  }
  const std::lock_guard lock{mutex_};
  return returns_[{refused.priority, tenant}].next(std::chrono::steady_clock::now(), wait, spacing);
}

target_set upstream_queue::candidates(std::size_t tenant, std::string_view model) const {
  target_set found = serving(upstream_, model);
  for (std::size_t i = 0; i < targets(); ++i)
    if (has(found, i) && !takes(i, tenant, model)) found &= ~(target_set{1} << i);
  return found;
}

void upstream_queue::pause(std::size_t target, std::size_t tenant, time_point until) {
  if (upstream_.credential.is_passed()) {
    share_of(tenant)->extend_pause(until);
  } else {
    limit_->pause(target, until);
  }
}

std::optional<spent_quota> upstream_queue::find_spent(std::size_t tenant, std::string_view model,
                                                      target_set among) const {
  std::optional<spent_quota> first;
  const target_set of = serving(upstream_, model) & among;
  for (std::size_t i = 0; i < targets(); ++i) {
    if (!has(of, i)) continue;
    auto spent = limit_->find_spent(i, whose_pause(tenant), model);
    if (!spent) return std::nullopt;
    if (!first || spent->until < first->until) first = std::move(spent);
  }
  return first;
}

void upstream_queue::note_spent(std::size_t target, std::size_t tenant, spent_quota told) {
  const auto now = std::chrono::system_clock::now();
  if (told.reset == std::chrono::sys_seconds{}) {
    told.resets = settings(target).quota_resets;
    told.reset = next_reset(told.resets, now);
  }
  told.tenant = whose_pause(tenant);
  told.until = std::chrono::steady_clock::now() + (told.reset - now);
  limit_->note_spent(target, std::move(told));
}

time_point upstream_queue::paused_until(std::size_t target, std::size_t tenant) const {
  if (upstream_.credential.is_passed()) return share_of(tenant)->stats().paused_until;
  return limit_->at(target).now().pauses.until(pause_cause::upstream);
}

void upstream_queue::learn(std::size_t target, const told_limits& told) {
  if (!upstream_.credential.is_passed()) limit_->lower(target, told);
}

bool upstream_queue::is_as_new(time_point now) const {
  const limiter_stats limit = limit_->local().stats();
  // Checks the statistics of the limit, not those of this queue. Calls that began before a reload use the same limit
  // through the queue of the earlier configuration.
  if (limit.held > 0 || limit.waiting > 0) return false;
  for (std::size_t i = 0; i < limit.tokens.size(); ++i)
    if (limit.tokens[i] < 0 || static_cast<std::uint64_t>(limit.tokens[i]) < upstream_.rates[i].burst) return false;
  const upstream_limit::status status = limit_->now();
  if (status.breaker != circuit_state::closed || status.pauses.until() > now) return false;
  const std::lock_guard lock{mutex_};
  return std::ranges::all_of(shares_, [&](const auto& s) { return s.second->stats().paused_until <= now; });
}

std::optional<duration> upstream_queue::hedge_after() {
  if (!upstream_.hedge_after) return std::nullopt;
  limit_->hedges().pay_in();
  const hedge_delay& after = *upstream_.hedge_after;
  if (!after.is_quantile()) return after.after();
  return limit_->latencies().quantile(std::chrono::steady_clock::now(), after.share());
}

}  // namespace canigo::gateway
