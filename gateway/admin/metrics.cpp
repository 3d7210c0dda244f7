#include "gateway/admin/metrics.hpp"

#include "gateway/admin/budget_state.hpp"
#include "gateway/admin/metric_text.hpp"
#include "gateway/policy/limit_names.hpp"
#include "gateway/process/service.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {
namespace {

/// The state of an upstream at one moment. It is read once and then used for all metric families, because each family
/// has a sample of every upstream.
struct upstream_moment {
  std::string_view name;
  const upstream* settings = nullptr;
  limiter_stats limit;
  std::vector<std::uint64_t> outside;  // the number of requests that wait outside of the upstream's queue, by class
  std::uint64_t running = 0;
  std::uint64_t paused_tenants = 0;
  std::uint64_t spent_quotas = 0;
  upstream_limit::status state;
};

std::string status_text(int status) { return status < 0 ? std::string{"other"} : std::to_string(status); }

void show_requests(metric_text& m, const call_counts::totals& all) {
  m.counter("requests_total",
            "Ended requests by the status that the client got. 0: the client disconnected without an answer.");
  std::map<std::string_view, std::uint64_t> refused;
  for (const auto& [k, n] : all.requests) {
    m.sample({{"upstream", k.upstream},
              {"tenant", k.tenant},
              {"class", k.priority},
              {"code", status_text(k.status)},
              {"error", k.error}},
             n);
    if (!k.error.empty() && k.status >= 400) refused[k.error] += n;
  }
  m.counter("refused_total",
            "Requests that the gateway itself refused with a status of 400 or above, by X-Canigo-Error.");
  for (const auto& [reason, n] : refused) m.sample({{"reason", reason}}, n);
  m.histogram("first_byte_seconds", "Time from the beginning of an attempt to the first byte of the response.");
  for (const auto& [name, u] : all.upstreams) m.sample({{"upstream", name}}, u.first_byte);
  m.histogram("duration_seconds", "Time from the arrival of a forwarded request to the last byte of its response.");
  for (const auto& [name, u] : all.upstreams) m.sample({{"upstream", name}}, u.total);
  m.counter("tokens_total", "Tokens that requests asked for, and tokens that upstreams reported as used.");
  for (const auto& [name, u] : all.upstreams) {
    for (const auto& [tenant, t] : u.by_tenant) {
      m.sample({{"upstream", name}, {"tenant", tenant}, {"kind", "asked"}}, t.asked);
      m.sample({{"upstream", name}, {"tenant", tenant}, {"kind", "input"}}, t.input);
      m.sample({{"upstream", name}, {"tenant", tenant}, {"kind", "output"}}, t.output);
    }
  }
  if (std::ranges::all_of(all.upstreams, [](const auto& u) { return u.second.spent.empty(); })) return;
  m.counter("spent_usd_total",
            "US dollars that calls have cost. model: the name or pattern of the model in the prices.");
  for (const auto& [name, u] : all.upstreams) {
    for (const auto& [whose, amount] : u.spent)
      m.sample({{"upstream", name}, {"tenant", whose.first}, {"model", whose.second}},
               static_cast<double>(amount) / static_cast<double>(one_usd));
  }
}

void show_queues(metric_text& m, const std::vector<upstream_moment>& all, const config& c) {
  m.gauge("waiting", "Requests that wait for their upstream.");
  for (const auto& u : all) {
    for (std::size_t p = 0; p < u.limit.classes.size(); ++p)
      m.sample({{"upstream", u.name}, {"class", c.classes[p]}}, u.limit.classes[p].waiting + u.outside[p]);
  }
  m.histogram("wait_seconds", "How long the granted requests waited.");
  for (const auto& u : all) {
    for (std::size_t p = 0; p < u.limit.classes.size(); ++p)
      m.sample({{"upstream", u.name}, {"class", c.classes[p]}}, u.limit.classes[p].wait);
  }
  m.gauge("running", "Running requests of an upstream.");
  for (const auto& u : all) m.sample({{"upstream", u.name}}, u.running);
}

void show_limits(metric_text& m, const std::vector<upstream_moment>& all) {
  m.gauge("limit_level", "The tokens or free places of a limit. Below 0: calls were charged more than the limit had.");
  for (const auto& u : all) {
    const auto names = names_of_rates(u.settings->rates);
    for (std::size_t r = 0; r < names.size(); ++r)
      m.sample({{"upstream", u.name}, {"limit", names[r]}}, u.limit.tokens[r]);
    const auto free = static_cast<std::int64_t>(u.limit.concurrency) - static_cast<std::int64_t>(u.limit.held);
    m.sample({{"upstream", u.name}, {"limit", "concurrency"}}, free);
  }
  m.counter(
      "limit_binding_seconds_total",
      "Time for which the first waiter lacked this limit. tenant: limits or pauses of tenants delayed all waiters.");
  for (const auto& u : all) {
    const auto seconds = [&](std::string_view limit, duration d) {
      m.sample({{"upstream", u.name}, {"limit", limit}}, std::chrono::duration<double>(d).count());
    };
    const auto names = names_of_rates(u.settings->rates);
    for (std::size_t r = 0; r < names.size(); ++r) seconds(names[r], u.limit.binding.rates[r]);
    seconds("concurrency", u.limit.binding.concurrency);
    seconds("paused", u.limit.binding.paused);
    seconds("tenant", u.limit.binding.flow);
    if (!u.settings->targets.empty()) seconds("targets", u.limit.binding.alternatives);
    if (!u.settings->models.empty()) seconds("model", u.limit.binding.sublimit);
  }
}

void show_pauses(metric_text& m, const std::vector<upstream_moment>& all) {
  const time_point now = std::chrono::steady_clock::now();
  m.gauge("paused",
          "1 while this cause keeps requests from an upstream. tenant: the number of paused tenants. quota: the number "
          "of used-up quotas; 0 for an upstream with a list of targets.");
  for (const auto& u : all) {
    for (std::size_t i = 0; i < pause_cause_names.size(); ++i) {
      const bool is_paused = u.state.pauses.until(static_cast<pause_cause>(i)) > now;
      m.sample({{"upstream", u.name}, {"cause", pause_cause_names[i]}}, is_paused ? 1 : 0);
    }
    m.sample({{"upstream", u.name}, {"cause", "tenant"}}, u.paused_tenants);
    m.sample({{"upstream", u.name}, {"cause", "quota"}}, u.spent_quotas);
  }
  m.gauge("breaker_state", "1 for the present state of the circuit breaker, 0 for its other states.");
  constexpr std::array<std::pair<circuit_state, std::string_view>, 3> states{
      {{circuit_state::closed, "closed"}, {circuit_state::open, "open"}, {circuit_state::half_open, "half_open"}}};
  for (const auto& u : all) {
    for (const auto& [state, name] : states)
      m.sample({{"upstream", u.name}, {"state", name}}, u.state.breaker == state ? 1 : 0);
  }
}

/// Writes the metrics of targets. Writes nothing if no upstream lists targets.
void show_targets(metric_text& m, const config_snapshot& g, const std::vector<upstream_moment>& all) {
  if (std::ranges::none_of(all, [](const upstream_moment& u) { return !u.settings->targets.empty(); })) return;
  const time_point now = std::chrono::steady_clock::now();
  const auto each = [&](auto use) {
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t t = 0; t < all[i].settings->targets.size(); ++t)
        use(i, t, all[i].settings->targets[t], all[i].limit.alternatives[t]);
  };
  m.counter("target_granted_total", "Calls that were granted at a target.");
  each([&](std::size_t i, std::size_t, const target& t, const alternative_stats& stats) {
    m.sample({{"upstream", all[i].name}, {"target", t.name}}, stats.granted);
  });
  m.gauge("target_running", "Running calls of a target.");
  each([&](std::size_t i, std::size_t, const target& t, const alternative_stats& stats) {
    m.sample({{"upstream", all[i].name}, {"target", t.name}}, stats.held);
  });
  m.gauge("target_level",
          "The tokens or free places of a target's limit. Below 0: calls were charged more than the limit had.");
  each([&](std::size_t i, std::size_t, const target& t, const alternative_stats& stats) {
    const auto names = names_of_rates(t.rates);
    for (std::size_t r = 0; r < names.size(); ++r)
      m.sample({{"upstream", all[i].name}, {"target", t.name}, {"limit", names[r]}}, stats.tokens[r]);
    const auto free = static_cast<std::int64_t>(stats.concurrency) - static_cast<std::int64_t>(stats.held);
    m.sample({{"upstream", all[i].name}, {"target", t.name}, {"limit", "concurrency"}}, free);
  });
  m.gauge("target_paused", "1 while this cause keeps calls from a target. quota: the number of used-up quotas.");
  each([&](std::size_t i, std::size_t t, const target& of, const alternative_stats&) {
    const pause_book pauses = g.queue(i).limits().of_target(t).pauses;
    for (std::size_t cause = 0; cause < pause_cause_names.size(); ++cause) {
      const bool is_paused = pauses.until(static_cast<pause_cause>(cause)) > now;
      m.sample({{"upstream", all[i].name}, {"target", of.name}, {"cause", pause_cause_names[cause]}},
               is_paused ? 1 : 0);
    }
    m.sample({{"upstream", all[i].name}, {"target", of.name}, {"cause", "quota"}},
             g.queue(i).limits().spent_at(t).size());
  });
}

/// Writes the metrics of the models that have limits of their own: of each upstream, at most most_model_limits models.
void show_models(metric_text& m, const config_snapshot& g, const std::vector<upstream_moment>& all) {
  if (std::ranges::none_of(all, [](const upstream_moment& u) { return !u.settings->models.empty(); })) return;
  const auto each = [&](auto use) {
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t s = 0; s < all[i].limit.sublimits.size(); ++s) use(i, s, all[i].limit.sublimits[s]);
  };
  m.counter("model_granted_total", "Granted calls for a model that has limits of its own.");
  each([&](std::size_t i, std::size_t, const sublimit_stats& stats) {
    m.sample({{"upstream", all[i].name}, {"model", stats.name}}, stats.granted);
  });
  m.gauge("model_running", "Running calls for a model that has limits of its own.");
  each([&](std::size_t i, std::size_t, const sublimit_stats& stats) {
    m.sample({{"upstream", all[i].name}, {"model", stats.name}}, stats.held);
  });
  m.gauge("model_level",
          "The tokens or free places of a model's limit. Below 0: calls were charged more than the limit had.");
  each([&](std::size_t i, std::size_t s, const sublimit_stats& stats) {
    const std::size_t entry = g.queue(i).limits().models().entry_of(static_cast<int>(s));
    const auto names = names_of_rates(all[i].settings->models[entry].rates);
    for (std::size_t r = 0; r < names.size(); ++r)
      m.sample({{"upstream", all[i].name}, {"model", stats.name}, {"limit", names[r]}}, stats.tokens[r]);
    if (stats.concurrency == unlimited) return;
    const auto free = static_cast<std::int64_t>(stats.concurrency) - static_cast<std::int64_t>(stats.held);
    m.sample({{"upstream", all[i].name}, {"model", stats.name}, {"limit", "concurrency"}}, free);
  });
}

/// Writes the sums over all hosts of forward mode. There may be thousands of hosts, so a host has no series of its own.
void show_forward(metric_text& m, const call_counts& counts, const config_snapshot& g) {
  std::vector<std::shared_ptr<upstream_queue>> hosts;
  if (g.hosts() != nullptr) hosts = g.hosts()->all();
  std::size_t waiting = 0;
  for (const auto& q : hosts) waiting += q->limit().stats().waiting + q->limits().outside().all();
  m.gauge("forwarded_hosts", "Hosts of forward mode that have limits now.");
  m.sample({}, hosts.size());
  m.gauge("forwarded_waiting", "Requests that wait for hosts of forward mode.");
  m.sample({}, waiting);
  m.gauge("tunnels", "Tunnels that are open or being opened.");
  m.sample({}, std::max<std::int64_t>(counts.tunnels.load(), 0));
}

void show_process(metric_text& m, service& s) {
  const auto running = std::max<std::int64_t>(s.counts.running.load(), 0);
  m.counter("lowered_total", "Requests that asked for a more important class than their tenant may use.");
  for (const auto& [tenant, n] : s.counts.lowered()) m.sample({{"tenant", tenant}}, n);
  m.counter("retries_total", "Further attempts to send a request, by the reason.");
  for (std::size_t i = 0; i < retry_reason_names.size(); ++i)
    m.sample({{"reason", retry_reason_names[i]}}, s.counts.retries(static_cast<retry_reason>(i)));
  m.counter("hedges_total",
            "Second attempts that began because the first attempt was slow. won: the client got the response of the "
            "second attempt.");
  m.sample({{"result", "started"}}, s.counts.hedges.load());
  m.sample({{"result", "won"}}, s.counts.hedges_won.load());
  m.counter("reloads_total", "Reloads of the configuration. refused: the file had a mistake, and nothing has changed.");
  m.sample({{"result", "done"}}, s.counts.reloads.load());
  m.sample({{"result", "refused"}}, s.counts.reloads_refused.load());
  m.counter("resends_total",
            "Calls that a client sent again, and that kept the queue position of their first arrival.");
  m.sample({}, s.counts.resends.load());
  m.counter("kept_failed_total",
            "Calls whose client got a status of 200 during the wait, and then an error as an event.");
  m.sample({}, s.counts.kept_failed.load());
  m.counter("kept_total", "Calls whose client got interim responses, or comments of an event stream, during the wait.");
  m.sample({{"by", "interim"}}, s.counts.kept_by_interim.load());
  m.sample({{"by", "events"}}, s.counts.kept_by_events.load());
  m.counter("usage_missing_total", "Requests whose upstream should have reported the used tokens, but has not.");
  m.sample({}, s.counts.usage_missing.load());
  m.counter("bytes_total", "Bytes of bodies. in: of requests. out: of responses.");
  m.sample({{"direction", "in"}}, s.counts.bytes_in.load());
  m.sample({{"direction", "out"}}, s.counts.bytes_out.load());
  m.gauge("connections", "Open connections of clients and to the admin listener. idle: connections without a request.");
  const auto open = static_cast<std::int64_t>(s.clients.all() + s.admins.all());
  const auto waiting = static_cast<std::int64_t>(s.waiting());
  m.sample({{"state", "waiting"}}, waiting);
  m.sample({{"state", "running"}}, running);
  m.sample({{"state", "idle"}}, std::max<std::int64_t>(open - waiting - running, 0));
  m.counter("connections_refused_total",
            "Connections that were closed at once, because too many connections were open.");
  m.sample({}, s.clients.refused() + s.admins.refused());
  if (s.store() != nullptr) {
    m.gauge("redis_connected", "1 while the Redis of shared limits answers without errors.");
    m.sample({}, s.store()->now().is_connected ? 1 : 0);
  }
  m.gauge("waiting_bytes", "Bytes of bodies that are kept in memory.");
  m.sample({}, s.kept.now());
  m.counter("log_lines_dropped_total", "Lines of the access log that could not be written in time.");
  m.sample({}, s.log.dropped());
}

/// Returns how many of the first thousand tenants are paused individually at this upstream. Only a tenant that brings
/// its own credentials can be paused individually.
std::uint64_t paused_tenants(const upstream_queue& q, const config& c) {
  constexpr std::size_t most = 1000;
  if (!q.settings().credential.is_passed()) return 0;
  const time_point now = std::chrono::steady_clock::now();
  std::uint64_t n = 0;
  for (std::size_t t = 0; t < std::min(c.tenants.size(), most); ++t)
    n += q.share(t)->stats().paused_until > now ? 1 : 0;
  return n;
}

}  // namespace

std::string metrics_of(service& s) {
  const auto g = s.current();
  const config& c = g->settings;
  std::vector<upstream_moment> upstreams;
  for (std::size_t i = 0; i < g->queues(); ++i) {
    upstream_queue& q = g->queue(i);
    upstreams.push_back({q.settings().name,
                         &q.settings(),
                         q.limit().stats(),
                         {},
                         0,
                         paused_tenants(q, c),
                         q.settings().targets.empty() ? q.limits().spent_at(0).size() : 0,
                         q.limits().now()});
    upstream_moment& u = upstreams.back();
    const outside_waits& outside = q.limits().outside();
    for (std::size_t p = 0; p < c.classes.size(); ++p) u.outside.push_back(outside.of(p));
    u.running = u.limit.held - std::min(u.limit.held, outside.with_place());
  }
  metric_text m;
  show_requests(m, s.counts.all());
  show_queues(m, upstreams, c);
  show_limits(m, upstreams);
  show_pauses(m, upstreams);
  show_targets(m, *g, upstreams);
  show_models(m, *g, upstreams);
  show_forward(m, s.counts, *g);
  show_budgets(m, s, c);
  show_process(m, s);
  return m.take();
}

}  // namespace canigo::gateway
