#include "gateway/admin/target_state.hpp"

#include "gateway/config/units.hpp"
#include "gateway/policy/limit_names.hpp"
#include "gateway/policy/quota_resets.hpp"

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {
namespace {

using json = nlohmann::json;

/// Describes the limits of a target or a model. `Stats`: alternative_stats or sublimit_stats.
template <class Stats>
json limits_of(const std::vector<rate_limit>& rates, const Stats& stats) {
  json all = json::array();
  const auto names = names_of_rates(rates);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const rate_limit& r = rates[i];
    all.push_back({{"name", names[i]}, {"limit", r.rate.tokens()}, {"level", stats.tokens[i]}, {"burst", r.burst}});
  }
  if (stats.concurrency == unlimited) return all;
  all.push_back({{"name", "concurrency"},
                 {"limit", stats.concurrency},
                 {"level", static_cast<std::int64_t>(stats.concurrency) - static_cast<std::int64_t>(stats.held)},
                 {"burst", stats.concurrency}});
  return all;
}

}  // namespace

json until(time_point end, time_point now) {
  if (end == time_point::max()) return nullptr;
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::max(end - now, duration::zero())).count();
}

json pauses_of(const pause_book& pauses, time_point now) {
  json all = json::array();
  for (std::size_t i = 0; i < pause_cause_names.size(); ++i) {
    const time_point end = pauses.until(static_cast<pause_cause>(i));
    if (end > now) all.push_back({{"cause", pause_cause_names[i]}, {"until_ms", until(end, now)}});
  }
  return all;
}

std::string utc(std::chrono::system_clock::time_point t) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(t)));
}

json or_null(std::string_view text) { return text.empty() ? json(nullptr) : json(text); }

void add_quotas(json& to, const std::vector<spent_quota>& spent, time_point now) {
  for (const spent_quota& q : spent) {
    to.push_back({{"cause", "quota"},
                  {"quota", q.name},
                  {"model", or_null(q.model)},
                  {"request", q.request},
                  {"resets", text_of_reset(q.resets, q.reset)},
                  {"until", utc(q.reset)},
                  {"until_ms", until(q.until, now)}});
    if (!q.tenant.empty()) to.back()["tenant"] = q.tenant;
  }
}

json targets_of(upstream_queue& q, const limiter_stats& stats, time_point now) {
  json all = json::array();
  const upstream& u = q.settings();
  const redis_limit* const shared = q.limits().shared();
  const auto of_all = shared != nullptr ? shared->stats().alternatives : std::vector<redis::alternative_state>{};
  for (std::size_t i = 0; i < std::min(u.targets.size(), stats.alternatives.size()); ++i) {
    const target& t = u.targets[i];
    const target_limit::status state = q.limits().of_target(i);
    all.push_back({{"name", t.name},
                   {"models", t.models},
                   {"prefer", t.prefer},
                   {"held", stats.alternatives[i].held},
                   {"granted", stats.alternatives[i].granted},
                   {"limits", limits_of(t.rates, stats.alternatives[i])},
                   {"breaker", {{"state", to_string(state.breaker)}, {"opened", state.opened}}},
                   {"pauses", pauses_of(state.pauses, now)}});
    add_quotas(all.back()["pauses"], q.limits().spent_at(i), now);
    // Redis counts the running calls of a target only if the limit's permits have leases. A limit that has only rates
    // has no leases.
    if (shared != nullptr && shared->has_leases()) all.back()["held_by_all"] = of_all[i].held_by_all;
  }
  return all;
}

json models_of(upstream_queue& q, const limiter_stats& stats) {
  json all = json::array();
  for (std::size_t i = 0; i < stats.sublimits.size(); ++i) {
    const sublimit_stats& s = stats.sublimits[i];
    const model_limit& m = q.settings().models[q.limits().models().entry_of(static_cast<int>(i))];
    all.push_back({{"name", s.name},
                   {"match", m.match},
                   {"held", s.held},
                   {"granted", s.granted},
                   {"limits", limits_of(m.rates, s)}});
  }
  return all;
}

json names_of_targets(const upstream& u, target_set of) {
  json names = json::array();
  for (std::size_t i = 0; i < u.targets.size(); ++i)
    if (has(of, i)) names.push_back(u.targets[i].name);
  return names;
}

}  // namespace canigo::gateway
