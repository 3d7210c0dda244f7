#include "gateway/config/config_view.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::gateway {
namespace {

using json = nlohmann::json;

std::string text_of(duration d) { return d == duration::max() ? "never" : to_string(d); }

std::string text_of(const listen_address& a) {
  if (a.is_unix()) return "unix:" + a.path;
  const bool is_v6 = a.host.find(':') != a.host.npos;
  return (is_v6 ? '[' + a.host + ']' : a.host) + ':' + std::to_string(a.port);
}

json view(const std::vector<rate_limit>& rates) {
  json all = json::array();
  for (const rate_limit& r : rates) {
    const auto tokens = static_cast<std::uint64_t>(r.rate.tokens());
    const bool is_usd = r.unit == "usd";
    all.push_back({{"limit", (is_usd ? usd_text(tokens) : std::to_string(tokens)) + '/' + to_string(r.rate.period())},
                   {"burst", is_usd ? json(usd_text(r.burst)) : json(r.burst)},
                   {"unit", r.unit.empty() ? "requests" : r.unit},
                   {"window", r.window == rate_window::strict ? "strict" : "average"}});
  }
  return all;
}

std::string text_of(const origin& o) { return (o.is_tls ? "https://" : "http://") + o.host_field + o.path; }

std::string text_of(const credential& c) { return c.is_passed() ? "pass" : c.header + " from " + c.value.source; }

json view(const budget_options& b) {
  return {{"usd", usd_text(b.most) + '/' + std::string{name_of(b.per)}}, {"zone", b.zone}, {"at", name_of(b.at)}};
}

json view(const target& t) {
  json one{{"name", t.name},         {"url", text_of(t.url)},         {"credential", text_of(t.credential)},
           {"provider", t.provider}, {"rates", view(t.rates)},        {"concurrency", t.concurrency},
           {"prefer", t.prefer},     {"private", t.private_addresses}};
  if (!t.models.empty()) one["models"] = t.models;
  if (t.budget) one["budget"] = view(*t.budget);
  for (const path_change& p : t.paths) one["path"][p.from] = p.to;
  return one;
}

json view(const model_limit& m) {
  json one{{"match", m.match}, {"together", m.is_together}, {"rates", view(m.rates)}};
  if (m.concurrency != unlimited) one["concurrency"] = m.concurrency;
  return one;
}

json view(const upstream& u, const config& c) {
  constexpr std::array<std::string_view, 7> apis{"none",   "openai",  "anthropic", "gemini",
                                                 "cohere", "bedrock", "bytes/4"};
  json one{{"name", u.name},
           {"url", text_of(u.url)},
           {"prefix", u.prefix},
           {"provider", u.provider},
           {"credential", text_of(u.credential)},
           {"rates", view(u.rates)},
           {"concurrency", u.concurrency},
           {"queue", u.queue},
           {"shared", u.shared},
           {"tokens", apis[static_cast<std::size_t>(u.tokens.api)]},
           {"retry", {{"attempts", u.retry.attempts}, {"budget_percent", u.retry.budget}, {"body", u.retry.body}}},
           {"private", u.private_addresses}};
  one["timeout"] = {{"connect", text_of(u.timeout.connect)},
                    {"first_byte", text_of(u.timeout.first_byte)},
                    {"idle", text_of(u.timeout.idle)},
                    {"total", text_of(u.timeout.total)}};
  one["breaker"] = {{"failures_percent", u.breaker.failures},
                    {"of", u.breaker.of},
                    {"within", text_of(u.breaker.within)},
                    {"open", text_of(u.breaker.open)},
                    {"most", text_of(u.breaker.most)}};
  if (u.keep_alive)
    one["keep_alive"] = {{"after", text_of(u.keep_alive->after)}, {"every", text_of(u.keep_alive->every)}};
  if (u.budget) one["budget"] = view(*u.budget);
  for (const target& t : u.targets) one["targets"].push_back(view(t));
  for (const model_limit& m : u.models) one["models"].push_back(view(m));
  if (!u.targets.empty()) {  // each target has its own
    one.erase("url");
    one.erase("credential");
  }
  for (std::size_t p = 0; p < u.max_wait.size() && p < c.classes.size(); ++p)
    one["max_wait"][c.classes[p]] = text_of(u.max_wait[p]);
  return one;
}

json view(const tenant& t, const config& c) {
  json one{{"name", t.name},
           {"keys", t.keys.size()},
           {"class", c.classes[static_cast<std::size_t>(t.default_class)]},
           {"best", c.classes[static_cast<std::size_t>(t.best_class)]},
           {"weight", t.weight}};
  if (t.max_wait != duration::max()) one["max_wait"] = text_of(t.max_wait);
  if (!t.subject.empty()) one["subject"] = t.subject;
  if (t.uid) one["uid"] = *t.uid;
  if (t.budget) one["budget"] = view(*t.budget);
  for (const auto& [name, own] : t.limits) {
    one["limits"][name] = {{"rates", view(own.rates)}};
    if (own.concurrency != unlimited) one["limits"][name]["concurrency"] = own.concurrency;
  }
  return one;
}

json view(const listener& l) {
  constexpr std::array<std::string_view, 3> modes{"reverse", "forward", "both"};
  return {{"address", text_of(l.address)},
          {"mode", modes[static_cast<std::size_t>(l.mode)]},
          {"tls", l.tls.has_value()},
          {"anonymous", l.anonymous}};
}

}  // namespace

json config_view(const config& c) {
  constexpr std::size_t most_tenants = 500;
  json all{{"classes", c.classes},
           {"ageing", text_of(c.ageing)},
           {"grace", text_of(c.grace)},
           {"redis", c.redis.source.empty() ? json(nullptr) : json(c.redis.source)},
           {"redis_tls", {{"ca", c.redis_tls.ca}, {"cert", c.redis_tls.cert}, {"key", c.redis_tls.key}}},
           {"prices", c.prices_source.empty() ? json(nullptr) : json(c.prices_source)},
           {"unpriced", c.refuses_unpriced ? "refuse" : "free"},
           {"state", c.state.empty() ? json(nullptr) : json(c.state)},
           {"connections", {{"all", c.connections.all}, {"per_address", c.connections.per_address}}},
           {"listen", json::array()},
           {"upstreams", json::array()},
           {"tenants", json::array()},
           {"tenants_in_all", c.tenants.size()}};
  for (const listener& l : c.listeners) all["listen"].push_back(view(l));
  for (const upstream& u : c.upstreams) all["upstreams"].push_back(view(u, c));
  for (std::size_t i = 0; i < c.tenants.size() && i < most_tenants; ++i)
    all["tenants"].push_back(view(c.tenants[i], c));
  if (c.forward) {
    json& f = all["forward"];
    f = {{"rates", view(c.forward->each.rates)}, {"tunnels", c.forward->tunnels}, {"hosts", c.forward->hosts}};
    for (const allowed_host& h : c.forward->allow) f["allow"].push_back(h.text);
  }
  return all;
}

}  // namespace canigo::gateway
