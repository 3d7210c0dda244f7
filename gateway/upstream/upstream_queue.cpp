#include "gateway/upstream/upstream_queue.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>

namespace canigo::gateway {
namespace {

// A connection that nobody uses for longer is closed: many servers close theirs after a minute.
constexpr duration kept_for = std::chrono::seconds{50};
// Of one loop. A pool has a worker for each.
constexpr std::uint64_t most_connections = 4096;

std::size_t connections_of(const upstream& u) { return std::min(u.concurrency, most_connections); }

flow_options share_of(const tenant& t, const upstream& u) {
  flow_options o{.weight = t.weight};
  if (const auto own = t.limits.find(u.name); own != t.limits.end()) {
    o.rates = own->second.rates;
    o.concurrency = own->second.concurrency;
  }
  return o;
}

/// Whether a connection that was made for one of them may serve the other: each judges addresses by its own rules.
bool leads_to_the_same(const upstream& a, const upstream& b) {
  const auto place = [](const upstream& u) {
    return std::tie(u.url.is_tls, u.url.host, u.url.port, u.private_addresses);
  };
  return place(a) == place(b);
}

/// Whether the rates of a share differ in nothing but their speed.
bool has_same_bursts(const flow_options& a, const flow_options& b) {
  return std::ranges::equal(a.rates, b.rates, [](const rate_limit& x, const rate_limit& y) {
    return x.unit == y.unit && x.burst == y.burst;
  });
}

}  // namespace

upstream_queue::upstream_queue(const config& c, const upstream& u, const std::vector<net::any_io_executor>& loops,
                               redis::client* store, const upstream_queue* before)
    : upstream_{u},
      tenants_{c.tenants},
      limit_{std::make_shared<upstream_limit>(loops.front(), c, u, store)},
      budget_{std::make_shared<retry_budget>(retry_budget::options{.percent = u.retry.budget})} {
  for (const tenant& t : c.tenants) {
    shares_.push_back({std::make_shared<flow>(limit_->local(), share_of(t, u)), std::make_shared<pause_end>(0)});
  }
  if (before != nullptr && leads_to_the_same(before->upstream_, u)) {
    pools_ = before->pools_;
    return;
  }
  pools_ = std::make_shared<pools>();
  const resource_pool_options<link> o{.concurrency = connections_of(u),
                                      .queue_limit = 1'000'000,
                                      .make = [] { return link{}; },
                                      .idle_timeout = kept_for};
  for (const auto& loop : loops) pools_->push_back(std::make_unique<resource_pool<link>>(loop, o));
}

void upstream_queue::take_over(const upstream_queue& before) {
  const upstream& old = before.upstream_;
  limit_ = before.limit_;
  limit_->change(upstream_);
  if (upstream_.concurrency != old.concurrency && pools_ == before.pools_)
    for (const auto& p : *pools_) p->resize(connections_of(upstream_));
  if (upstream_.retry.budget == old.retry.budget) budget_ = before.budget_;
  for (std::size_t t = 0; t < shares_.size(); ++t) take_over_share(t, before);
}

void upstream_queue::take_over_share(std::size_t tenant, const upstream_queue& before) {
  const gateway::tenant& now = tenants_[tenant];
  const auto found = std::ranges::find(before.tenants_, now.name, &gateway::tenant::name);
  const flow_options wanted = share_of(now, upstream_);
  tenant_share& share = shares_[tenant];
  if (found == before.tenants_.end()) {
    share.part = std::make_shared<flow>(limit_->local(), wanted);
    return;
  }
  const tenant_share& old = before.shares_[static_cast<std::size_t>(found - before.tenants_.begin())];
  share.pause = old.pause;
  const flow_options had = share_of(*found, before.upstream_);
  if (!has_same_bursts(had, wanted)) {
    share.part = std::make_shared<flow>(limit_->local(), wanted);
    return;
  }
  share.part = old.part;
  if (had.weight != wanted.weight) share.part->set_weight(wanted.weight);
  if (had.concurrency != wanted.concurrency) share.part->set_concurrency(wanted.concurrency);
  for (std::size_t i = 0; i < wanted.rates.size(); ++i) {
    if (had.rates[i].rate != wanted.rates[i].rate) share.part->set_rate(i, wanted.rates[i].rate);
  }
}

request upstream_queue::ask(std::size_t tenant, int priority, time_point deadline, std::uint64_t tag,
                            std::span<const token_amount> amounts) const {
  request r{.priority = priority, .deadline = deadline, .flow = shares_[tenant].part.get(), .tag = tag};
  for (const token_amount& a : amounts) {
    // Unit 0 is that of the first rate.
    const std::size_t unit = limit_->number_of(a.unit);
    if (unit == 0) {
      r.tokens = a.amount;
    } else {
      r.amounts.add(unit, a.amount);
    }
  }
  return r;
}

void upstream_queue::pause(std::size_t tenant, time_point until) {
  if (!upstream_.credential.is_passed()) {
    limit_->pause(until);
    return;
  }
  pause_end& end = *shares_[tenant].pause;
  const duration::rep wanted = until.time_since_epoch().count();
  duration::rep now = end.load(std::memory_order_relaxed);
  while (now < wanted && !end.compare_exchange_weak(now, wanted, std::memory_order_relaxed)) {
  }
}

void upstream_queue::learn(const quota_left& left) {
  if (!upstream_.credential.is_passed()) limit_->lower(left);
}

std::optional<duration> upstream_queue::hedge_after() {
  if (!upstream_.hedge_after) return std::nullopt;
  limit_->hedges().pay_in();
  const hedge_delay& after = *upstream_.hedge_after;
  if (!after.is_quantile()) return after.after();
  return limit_->latencies().quantile(std::chrono::steady_clock::now(), after.share());
}

}  // namespace canigo::gateway
