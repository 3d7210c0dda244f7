#include "gateway/upstream/forwarded_hosts.hpp"

#include "canigo/algorithms/token_bucket.hpp"

#include "gateway/policy/destination.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

namespace canigo::gateway {
namespace {

// How long a host of forward mode is kept without a call: longer than an idle connection is kept.
constexpr duration host_kept_for = std::chrono::minutes{1};
// The max number of hosts that one call of find() checks for removal, which bounds the time that find() takes.
constexpr int most_judged = 16;

semaphore_options tunnels_of(const config& c) {
  semaphore_options o;
  // A semaphore has at least one permit. If 0 tunnels are allowed, no call asks for this permit.
  o.permits = std::max<std::uint64_t>(c.forward->tunnels, 1);
  o.priorities = static_cast<int>(c.classes.size());
  // The queue as a whole is unlimited, because each flow has a limit on its waiters.
  o.queue_limit = std::numeric_limits<std::size_t>::max();
  o.on_overflow = c.forward->each.on_overflow;
  o.ageing = c.ageing;
  return o;
}

/// Returns the weight of the tenant with this name; 0 if there is no such tenant.
std::uint32_t weight_of(const config& c, std::string_view tenant) {
  const auto found = std::ranges::find(c.tenants, tenant, &tenant::name);
  return found == c.tenants.end() ? 0 : found->weight;
}

}  // namespace

forwarded_hosts::forwarded_hosts(const config& c, const std::vector<net::any_io_executor>& loops)
    : config_{c}, loops_{loops}, tunnels_{std::make_shared<semaphore>(loops.front(), tunnels_of(c))} {}

std::shared_ptr<upstream_queue> forwarded_hosts::find(const host_name& host, std::uint16_t port, time_point now) {
  const std::string name = limit_name(host, port);
  order dropped;  // declared before the lock: the removed hosts are destroyed after the mutex is released
  const std::lock_guard lock{mutex_};
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    found->second->used = now;
    hosts_.splice(hosts_.begin(), hosts_, found->second);
    return found->second->queue;
  }
  drop(now, dropped);
  if (hosts_.size() >= config_.forward->hosts) return nullptr;
  upstream own = upstream_of(*config_.forward, host, port);
  for (rate_limit& r : own.rates)
    r.initial_tokens = static_cast<std::uint64_t>(token_bucket{r.rate, r.burst, 0, since_}.available(now));
  auto queue = std::make_shared<upstream_queue>(config_, std::move(own), loops_, nullptr);
  add({host, port, queue, now, {}});
  return queue;
}

std::shared_ptr<const flow> forwarded_hosts::share_of_tunnels(std::string_view name, std::string_view tenant) {
  const std::lock_guard lock{mutex_};
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  shares& all = found->second->tunnels;
  if (const auto own = all.find(tenant); own != all.end()) return own->second;
  flow_options o{.queue_limit = config_.forward->each.queue};
  const bool has_own = all.size() < most_flows_of_a_host;
  if (has_own) o.weight = std::max<std::uint32_t>(weight_of(config_, tenant), 1);
  std::shared_ptr<flow>& share = all[has_own ? std::string{tenant} : std::string{}];
  if (!share) share = std::make_shared<flow>(*tunnels_, o);
  return share;
}

/// Returns those tunnel flows of the old configuration (`before`) whose tenants still exist. Changes the weights of
/// these flows to those of the new configuration.
forwarded_hosts::shares forwarded_hosts::taken_over(const shares& before) const {
  shares taken;
  for (const auto& [tenant, share] : before) {
    const std::uint32_t weight = weight_of(config_, tenant);
    if (!tenant.empty() && weight == 0) continue;
    if (weight > 0 && share->stats().weight != weight) share->set_weight(weight);
    taken.emplace(tenant, share);
  }
  return taken;
}

void forwarded_hosts::add(entry e) {
  hosts_.push_front(std::move(e));
  by_name_.emplace(hosts_.front().queue->settings().name, hosts_.begin());
}

void forwarded_hosts::take_over(const forwarded_hosts& before) {
  const forward_options& now = *config_.forward;
  tunnels_ = before.tunnels_;
  tunnels_->resize(std::min(tunnels_of(config_).permits, tunnels_of(before.config_).permits));
  since_ = before.since_;
  const std::scoped_lock lock{mutex_, before.mutex_};
  for (auto e = before.hosts_.rbegin(); e != before.hosts_.rend(); ++e) {
    if (find_allowed(now, e->host, e->port) == nullptr) continue;
    upstream own = upstream_of(now, e->host, e->port);
    auto queue = std::make_shared<upstream_queue>(config_, std::move(own), loops_, nullptr, e->queue.get());
    queue->take_over(*e->queue);
    add({e->host, e->port, std::move(queue), e->used, taken_over(e->tunnels)});
  }
}

void forwarded_hosts::end_take_over() {
  tunnels_->resize(tunnels_of(config_).permits);
  for (const auto& q : all()) q->end_take_over();
}

void forwarded_hosts::drop(time_point now, order& dropped) {
  for (int judged = 0; judged < most_judged && !hosts_.empty(); ++judged) {
    const auto last = std::prev(hosts_.end());
    const bool is_full = hosts_.size() >= config_.forward->hosts;
    if (!is_full && now - last->used < host_kept_for) return;
    if (last->queue.use_count() > 1 || !last->queue->is_as_new(now)) {
      last->used = now;  // this host is kept: it moves to the front, so that the loop checks the next host
      hosts_.splice(hosts_.begin(), hosts_, last);
      continue;
    }
    by_name_.erase(last->queue->settings().name);
    dropped.splice(dropped.end(), hosts_, last);
  }
}

bool forwarded_hosts::allows(const origin& url) const {
  using kind = host_name::kind;
  const kind what = !url.is_address ? kind::name : url.host.find(':') == url.host.npos ? kind::v4 : kind::v6;
  return find_allowed(*config_.forward, {what, url.host}, url.port) != nullptr;
}

std::shared_ptr<upstream_queue> forwarded_hosts::known(std::string_view name) const {
  const std::lock_guard lock{mutex_};
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second->queue;
}

std::vector<std::shared_ptr<upstream_queue>> forwarded_hosts::all() const {
  const std::lock_guard lock{mutex_};
  std::vector<std::shared_ptr<upstream_queue>> found;
  found.reserve(hosts_.size());
  for (const entry& e : hosts_) found.push_back(e.queue);
  return found;
}

void forwarded_hosts::stop() noexcept {
  tunnels_->stop();
  const std::lock_guard lock{mutex_};
  for (const entry& e : hosts_) e.queue->limit().stop();
}

}  // namespace canigo::gateway
