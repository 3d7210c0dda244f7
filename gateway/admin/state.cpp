#include "gateway/admin/state.hpp"

#include "canigo/version.hpp"

#include "gateway/admin/admin_session.hpp"
#include "gateway/admin/budget_state.hpp"
#include "gateway/admin/loop_look.hpp"
#include "gateway/admin/target_state.hpp"
#include "gateway/config/config_view.hpp"
#include "gateway/policy/limit_names.hpp"
#include "gateway/policy/quota_resets.hpp"
#include "gateway/process/service.hpp"

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

// g++ 12 may destroy a temporary of a co_await expression twice. So no such temporary in this file needs a destructor.
namespace canigo::gateway {
namespace {

using json = nlohmann::json;
using clock = std::chrono::steady_clock;

constexpr std::size_t most_shown = 50;    // the max number of waiters, and of running requests, shown for each upstream
constexpr std::size_t most_of_host = 10;  // the max number of waiters shown for each host of forward mode
constexpr std::size_t most_tenants = 100;  // the max number of tenants shown for each upstream
constexpr std::size_t most_looked_at = 1000;

double seconds(duration d) { return std::chrono::duration<double>(d).count(); }
std::int64_t milliseconds(duration d) { return std::chrono::duration_cast<std::chrono::milliseconds>(d).count(); }

json limits_of(const upstream& u, const limiter_stats& stats, const wait_reason& why, time_point now) {
  json all = json::array();
  const auto names = names_of_rates(u.rates);
  for (std::size_t i = 0; i < u.rates.size(); ++i) {
    const bool binds = why.binds == wait_reason::cause::rate && why.index == i;
    all.push_back({{"name", names[i]},
                   {"limit", u.rates[i].rate.tokens()},
                   {"period_s", seconds(u.rates[i].rate.period())},
                   {"unit", u.rates[i].unit},
                   {"level", stats.tokens[i]},
                   {"burst", u.rates[i].burst},
                   {"binds", binds},
                   {"until_ms", binds ? until(why.until, now) : json(nullptr)},
                   {"binding_s", seconds(stats.binding.rates[i])}});
  }
  all.push_back({{"name", "concurrency"},
                 {"limit", stats.concurrency},
                 {"unit", "requests"},
                 {"level", static_cast<std::int64_t>(stats.concurrency) - static_cast<std::int64_t>(stats.held)},
                 {"burst", stats.concurrency},
                 {"binds", why.binds == wait_reason::cause::concurrency},
                 {"until_ms", nullptr},
                 {"binding_s", seconds(stats.binding.concurrency)}});
  return all;
}

json classes_of(const config& c, const std::string& upstream, const limiter_stats& stats, const outside_waits& outside,
                const loop_look& look, time_point now) {
  json all = json::array();
  for (std::size_t p = 0; p < stats.classes.size(); ++p) {
    const class_stats& of = stats.classes[p];
    const auto oldest = look.oldest.find({upstream, c.classes[p]});
    all.push_back(
        {{"name", c.classes[p]},
         {"waiting", of.waiting + outside.of(p)},
         {"granted", of.granted},
         {"oldest_ms", oldest == look.oldest.end() ? json(nullptr) : json(milliseconds(now - oldest->second))},
         {"wait_p50_ms", 1e3 * seconds(of.wait.quantile(0.5))},
         {"wait_p99_ms", 1e3 * seconds(of.wait.quantile(0.99))}});
  }
  return all;
}

void describe(json& waiter, const request_view& v) {
  waiter.update({{"id", v.id}, {"tenant", v.tenant}, {"method", v.method}, {"host", v.host}, {"path", v.path}});
  if (v.tokens) waiter["tokens"] = *v.tokens;
  if (v.attempts > 0) waiter["attempts"] = v.attempts;
}

json waiter_of(const waiting_request& w, const request_view* v, const upstream_queue& q, const config& c,
               time_point now) {
  const upstream& u = q.settings();
  json one{{"class", c.classes[static_cast<std::size_t>(w.priority)]},
           {"waited_ms", milliseconds(now - w.since)},
           {"estimate_ms", milliseconds(w.estimate)},
           {"waits_for", or_null(q.name_of_limit(w.reason))}};
  if (!u.targets.empty()) one["targets"] = names_of_targets(u, w.alternatives);
  if (v != nullptr) describe(one, *v);  // null: the request has ended since the waiters of the limit were read
  return one;
}

/// Describes a request that waits outside of the upstream's queue, for example for a tunnel or for money of a budget.
json outsider_of(const request_view& v, time_point now) {
  json one{{"class", v.priority},
           {"waited_ms", milliseconds(now - v.since)},
           {"estimate_ms", v.waits_until == time_point::min() ? json(nullptr) : until(v.waits_until, now)},
           {"waits_for", v.waits_for}};
  describe(one, v);
  return one;
}

json running_of(const request_view& v, time_point now) {
  return {{"id", v.id},
          {"tenant", v.tenant},
          {"class", v.priority},
          {"method", v.method},
          {"host", v.host},
          {"path", v.path},
          {"target", or_null(v.target)},
          {"age_ms", milliseconds(now - v.since)},
          {"attempts", v.attempts},
          {"status", v.status == 0 ? json(nullptr) : json(v.status)},
          {"first_byte_ms", v.first_byte ? json(milliseconds(*v.first_byte)) : json(nullptr)},
          {"bytes_in", v.bytes_in},
          {"bytes_out", v.bytes_out}};
}

json tenant_of(const tenant& t, const upstream& u, const flow_stats& stats, time_point now) {
  const time_point paused = stats.paused_until;
  json one{{"name", t.name},           {"weight", stats.weight},
           {"waiting", stats.waiting}, {"running", stats.held},
           {"granted", stats.granted}, {"held_back", stats.is_held_back},
           {"limits", json::array()},  {"paused_ms", paused > now ? until(paused, now) : json(nullptr)}};
  const auto own = t.limits.find(u.name);
  if (own == t.limits.end()) return one;
  const auto names = names_of_rates(own->second.rates);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const rate_limit& r = own->second.rates[i];
    one["limits"].push_back(
        {{"name", names[i]}, {"limit", r.rate.tokens()}, {"level", stats.available[i]}, {"burst", r.burst}});
  }
  const std::uint64_t places = own->second.concurrency;
  if (places != unlimited) {
    one["limits"].push_back({{"name", "concurrency"},
                             {"limit", places},
                             {"level", static_cast<std::int64_t>(places) - static_cast<std::int64_t>(stats.held)},
                             {"burst", places}});
  }
  return one;
}

/// Adds to `to` the tenants that have their own limits at this upstream, are paused there, or have sent requests to it.
/// The tenants with the most waiting and running requests come first.
void add_tenants(json& to, const config& c, const upstream& u, const std::vector<flow_stats>& shares, time_point now) {
  struct one {
    std::size_t busy, tenant;
  };
  std::vector<one> found;
  for (std::size_t t = 0; t < shares.size(); ++t) {
    const flow_stats& stats = shares[t];
    const bool has_own = c.tenants[t].limits.contains(u.name);
    const bool is_paused = stats.paused_until > now;
    if (!has_own && !is_paused && stats.waiting == 0 && stats.held == 0 && stats.granted == 0) continue;
    found.push_back({stats.waiting + stats.held, t});
  }
  std::ranges::sort(
      found, [](const one& a, const one& b) { return a.busy != b.busy ? a.busy > b.busy : a.tenant < b.tenant; });
  to["tenants"] = json::array();
  for (std::size_t i = 0; i < std::min(found.size(), most_tenants); ++i) {
    const std::size_t t = found[i].tenant;
    to["tenants"].push_back(tenant_of(c.tenants[t], u, shares[t], now));
  }
  to["tenants_left_out"] = found.size() - to["tenants"].size() + (c.tenants.size() - shares.size());
}

void add_pauses(json& to, service& s, const config& c, upstream_queue& q, const std::vector<flow_stats>& shares,
                time_point now) {
  const upstream_limit::status state = q.limits().now();
  to["breaker"] = {{"state", to_string(state.breaker)}, {"opened", state.opened}};
  to["breaker"]["open_ms"] = state.open_until > now ? until(state.open_until, now) : json(nullptr);
  to["pauses"] = pauses_of(state.pauses, now);
  // A tenant can be paused individually only if it sends its own credentials to the upstream. The admin page shows such
  // pauses.
  for (std::size_t t = 0; t < shares.size(); ++t) {
    const time_point end = shares[t].paused_until;
    if (end <= now) continue;
    to["pauses"].push_back({{"cause", "upstream"}, {"tenant", c.tenants[t].name}, {"until_ms", until(end, now)}});
  }
  if (q.settings().targets.empty()) add_quotas(to["pauses"], q.limits().spent_at(0), now);
  to["last_refusal"] = nullptr;
  if (const auto o = s.origins.of(q.settings().name)) {
    to["last_refusal"] = {{"time", utc(o->time)},         {"status", o->status}, {"request", o->request},
                          {"target", or_null(o->target)}, {"tenant", o->tenant}, {"of_tenant", o->is_of_tenant}};
  }
}

json errors_of(const recent_errors& errors) {
  json all = json::array();
  for (const recent_errors::entry& e : errors.all()) {
    all.push_back({{"time", utc(e.time)},
                   {"count", e.count},
                   {"id", e.id},
                   {"tenant", or_null(e.tenant)},
                   {"class", or_null(e.priority)},
                   {"upstream", or_null(e.upstream)},
                   {"method", e.method},
                   {"path", e.path},
                   {"status", e.status},
                   {"error", or_null(e.error)},
                   {"detail", or_null(e.detail)},
                   {"attempts", e.attempts},
                   {"wait_ms", milliseconds(e.waited)}});
  }
  return all;
}

/// The state of a limit, and its waiters. Both are read before the event loops describe their waiting requests.
struct queue_look {
  limiter_stats stats;
  wait_reason why;
  std::vector<waiting_request> waiters;
};

/// Returns the view of the request with this number; null if the request ended before the requests of its event loop
/// were read.
const request_view* view_in(const loop_look& look, std::uint64_t number) {
  const auto found = look.asked.find(number);
  return found == look.asked.end() ? nullptr : &found->second;
}

json upstream_of(service& s, const config& c, upstream_queue& q, const queue_look& own, const loop_look& look) {
  const upstream& u = q.settings();
  const time_point now = clock::now();
  const outside_waits& outside = q.limits().outside();
  std::vector<flow_stats> shares;
  for (std::size_t t = 0; t < std::min(c.tenants.size(), most_looked_at); ++t) shares.push_back(q.share(t)->stats());
  json one{{"name", u.name},
           {"waiting", own.stats.waiting + outside.all()},
           {"held", own.stats.held},
           {"levels", own.stats.tokens},
           {"queue", u.queue},
           {"limits", limits_of(u, own.stats, own.why, now)},
           {"binds", or_null(q.name_of_limit(own.why))},
           {"binds_for_ms", own.why.binds == wait_reason::cause::none ? json(nullptr) : until(own.why.until, now)},
           {"classes", classes_of(c, u.name, own.stats, outside, look, now)},
           {"waiters", json::array()},
           {"running", json::array()}};
  for (const waiting_request& w : own.waiters) {
    const request_view* const v = view_in(look, w.tag);
    // A request may have left the queue after the limit was read, and may now wait outside of the queue. Such a request
    // is not added here, but by the loop over `look.outside` below.
    if (v == nullptr || v->waits_for.empty()) one["waiters"].push_back(waiter_of(w, v, q, c, now));
  }
  if (const auto found = look.outside.find(u.name); found != look.outside.end())
    for (const request_view& v : found->second)
      if (one["waiters"].size() < most_shown) one["waiters"].push_back(outsider_of(v, now));
  if (const auto running = look.running.find(u.name); running != look.running.end())
    for (const request_view& v : running->second) one["running"].push_back(running_of(v, now));
  const auto in_all = look.running_in_all.find(u.name);
  one["running_in_all"] = in_all == look.running_in_all.end() ? 0 : in_all->second;
  // If no limit delays the queue's first waiter, `binds` names the cause that delays the last waiter in the list.
  if (one["binds"].is_null() && !one["waiters"].empty()) one["binds"] = one["waiters"].back()["waits_for"];
  if (!u.targets.empty()) one["targets"] = targets_of(q, own.stats, now);
  if (!u.models.empty()) one["models"] = models_of(q, own.stats);
  if (const auto messages = q.limits().messages()) {
    const rate& r = *u.websocket->messages;
    const scheduler_stats stats = messages->stats();
    one["messages"] = {{"limit", r.tokens()},
                       {"period_s", seconds(r.period())},
                       {"waiting", stats.waiting},
                       {"granted", stats.granted}};
  }
  add_tenants(one, c, u, shares, now);
  add_pauses(one, s, c, q, shares, now);
  return one;
}

/// Adds to `to` the most recently used hosts of forward mode. There may be thousands of hosts, so each has only a few
/// fields.
void add_forward(json& to, const config_snapshot& g, const std::vector<std::shared_ptr<upstream_queue>>& hosts,
                 const std::vector<queue_look>& looks, const loop_look& look) {
  const config& c = g.settings;
  const time_point now = clock::now();
  json waiters = json::array();
  to["forwarded"] = json::array();
  for (std::size_t i = 0; i < looks.size(); ++i) {
    const upstream& u = hosts[i]->settings();
    const limiter_stats& stats = looks[i].stats;
    to["forwarded"].push_back({{"name", u.name},
                               {"waiting", stats.waiting + hosts[i]->limits().outside().all()},
                               {"held", stats.held},
                               {"levels", stats.tokens},
                               {"binds", or_null(hosts[i]->name_of_limit(looks[i].why))}});
    for (const waiting_request& w : looks[i].waiters) {
      const request_view* const v = view_in(look, w.tag);
      const bool is_in_line = v == nullptr || v->waits_for.empty();
      if (is_in_line && waiters.size() < most_shown) waiters.push_back(waiter_of(w, v, *hosts[i], c, now));
    }
  }
  json running = json::array();
  for (const allowed_host& h : c.forward->allow) {
    if (const auto outside = look.outside.find(h.text); outside != look.outside.end())
      for (const request_view& v : outside->second)
        if (waiters.size() < most_shown) waiters.push_back(outsider_of(v, now));
    const auto found = look.running.find(h.text);
    if (found == look.running.end()) continue;
    for (const request_view& v : found->second)
      if (running.size() < most_shown) running.push_back(running_of(v, now));
  }
  to["forwarded_waiters"] = std::move(waiters);
  to["forwarded_running"] = std::move(running);
}

}  // namespace

net::awaitable<std::string> state_of(service& s, admin_session& session, bool with_config) {
  const auto g = s.current();
  const config& c = g->settings;
  std::vector<queue_look> queues;
  std::vector<std::uint64_t> numbers;
  const auto add = [&numbers](std::vector<queue_look>& to, limiter& l, std::size_t most) {
    to.push_back({l.stats(), l.why_waiting(), l.waiting(most)});
    for (const waiting_request& w : to.back().waiters) numbers.push_back(w.tag);
  };
  for (std::size_t i = 0; i < g->queues(); ++i) add(queues, g->queue(i).limit(), most_shown);
  std::vector<std::shared_ptr<upstream_queue>> hosts;
  std::vector<queue_look> host_looks;
  if (g->hosts() != nullptr) hosts = g->hosts()->all();
  for (std::size_t i = 0; i < std::min(hosts.size(), most_shown); ++i) add(host_looks, hosts[i]->limit(), most_of_host);
  auto asking = look_at_loops(s, std::move(numbers), most_shown);
  const loop_look look = co_await std::move(asking);
  json all{{"version", version()},
           {"time", utc(std::chrono::system_clock::now())},
           {"up_s", seconds(clock::now() - s.started)},
           {"draining", s.is_draining()},
           {"loaded", session.number_of(g)},
           {"connections", s.clients.all() + s.admins.all()},
           {"running", s.counts.running.load()},
           {"kept_bytes", s.kept.now()},
           {"log_lines_dropped", s.log.dropped()},
           {"upstreams", json::array()},
           {"errors", errors_of(s.errors)}};
  for (std::size_t i = 0; i < queues.size(); ++i)
    all["upstreams"].push_back(upstream_of(s, c, g->queue(i), queues[i], look));
  if (g->hosts() != nullptr) {
    all["tunnels"] = s.counts.tunnels.load();
    all["forwarded_hosts"] = hosts.size();
    add_forward(all, *g, hosts, host_looks, look);
  }
  if (const shared_store* store = s.store()) {
    const shared_store::status redis = store->now();
    all["redis"] = {{"is_connected", redis.is_connected}, {"why", redis.why}};
  }
  if (json budgets = budgets_of(s, c); !budgets.empty()) all["budgets"] = std::move(budgets);
  if (with_config) all["config"] = config_view(c);
  co_return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace canigo::gateway
