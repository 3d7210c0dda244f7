#include "gateway/upstream/upstream_queue.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>

namespace canigo::gateway {
namespace {

// A connection that nobody uses for longer is closed: many servers close theirs after a minute.
constexpr duration kept_for = std::chrono::seconds{50};
// Of one loop. A pool has a worker for each.
constexpr std::uint64_t most_connections = 4096;

limiter_options limits_of(const config& c, const upstream& u) {
  limiter_options o;
  o.rates = u.rates;
  o.concurrency = u.concurrency;
  o.priorities = static_cast<int>(c.classes.size());
  o.queue_limit = u.queue;
  o.on_overflow = u.on_overflow;
  o.ageing = c.ageing;
  return o;
}

flow_options share_of(const tenant& t, const upstream& u) {
  flow_options o{.weight = t.weight};
  if (const auto own = t.limits.find(u.name); own != t.limits.end()) {
    o.rates = own->second.rates;
    o.concurrency = own->second.concurrency;
  }
  return o;
}

}  // namespace

upstream_queue::upstream_queue(const config& c, const upstream& u, const std::vector<net::any_io_executor>& loops)
    : upstream_{u},
      limit_{loops.front(), limits_of(c, u)},
      budget_{{.percent = u.retry.budget}},
      own_pauses_(c.tenants.size()) {
  for (const tenant& t : c.tenants) flows_.push_back(std::make_unique<flow>(limit_, share_of(t, u)));
  const resource_pool_options<link> o{.concurrency = std::min(u.concurrency, most_connections),
                                      .queue_limit = 1'000'000,
                                      .make = [] { return link{}; },
                                      .idle_timeout = kept_for};
  for (const auto& loop : loops) pools_.push_back(std::make_unique<resource_pool<link>>(loop, o));
  for (const rate_limit& r : u.rates) {
    if (std::ranges::find(units_, r.unit) == units_.end()) units_.push_back(r.unit);
  }
}

request upstream_queue::ask(std::size_t tenant, int priority, time_point deadline, std::uint64_t tag,
                            std::span<const token_amount> amounts) const {
  request r{.priority = priority, .deadline = deadline, .flow = flows_[tenant].get(), .tag = tag};
  for (const token_amount& a : amounts) {
    // Unit 0 is that of the first rate.
    const auto unit = static_cast<std::size_t>(std::ranges::find(units_, a.unit) - units_.begin());
    if (unit == 0) {
      r.tokens = a.amount;
    } else {
      r.amounts.add(unit, a.amount);
    }
  }
  return r;
}

void upstream_queue::settle(permit& p, std::span<const token_amount> used) const {
  for (const token_amount& a : used)
    p.settle(static_cast<std::size_t>(std::ranges::find(units_, a.unit) - units_.begin()), a.amount);
}

void upstream_queue::pause(std::size_t tenant, time_point until) {
  const bool is_own = upstream_.credential.is_passed();
  std::atomic<duration::rep>& end = is_own ? own_pauses_[tenant] : pause_;
  const duration::rep wanted = until.time_since_epoch().count();
  duration::rep now = end.load(std::memory_order_relaxed);
  while (now < wanted) {
    if (!end.compare_exchange_weak(now, wanted, std::memory_order_relaxed)) continue;
    if (!is_own) limit_.pause_until(until);
    return;
  }
}

void upstream_queue::give_back(permit& p) const {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) p.settle(unit, 0);
  p.release();
}

}  // namespace canigo::gateway
