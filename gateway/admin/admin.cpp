#include "gateway/admin/admin.hpp"

#include "gateway/http/answer.hpp"
#include "gateway/http/service.hpp"
#include "gateway/policy/fields.hpp"
#include "gateway/policy/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>

namespace canigo::gateway {
namespace {

constexpr std::string_view plain = "text/plain; charset=utf-8";

double seconds(duration d) { return std::chrono::duration<double>(d).count(); }

/// A label's value as Prometheus' text format has it.
std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text;
}

std::string metrics(service& s, const generation& g) {
  std::string text;
  const auto out = std::back_inserter(text);
  const config& c = g.settings;
  fmt::format_to(out, "# TYPE canigo_gateway_requests_total counter\n");
  for (const auto& [k, n] : s.counts.all()) {
    fmt::format_to(
        out,
        "canigo_gateway_requests_total{{upstream=\"{}\",tenant=\"{}\",class=\"{}\",code=\"{}\",error=\"{}\"}} {}\n",
        escaped(k.upstream), escaped(k.tenant), escaped(k.priority), k.status, escaped(k.error), n);
  }
  fmt::format_to(out, "# TYPE canigo_gateway_lowered_total counter\n");
  for (const auto& [tenant, n] : s.counts.lowered()) {
    fmt::format_to(out, "canigo_gateway_lowered_total{{tenant=\"{}\"}} {}\n", escaped(tenant), n);
  }
  std::string waiting = "# TYPE canigo_gateway_waiting gauge\n";
  std::string waits = "# TYPE canigo_gateway_wait_seconds histogram\n";
  std::string level = "# TYPE canigo_gateway_limit_level gauge\n";
  std::string held = "# TYPE canigo_gateway_held gauge\n";
  std::string breaker = "# TYPE canigo_gateway_breaker_state gauge\n";
  std::string paused = "# TYPE canigo_gateway_paused gauge\n";
  constexpr std::array<int, 8> edges{0, 3, 6, 9, 12, 15, 18, 21};  // in powers of two of 512 ns: exact edges
  for (std::size_t i = 0; i < g.queues(); ++i) {
    const limiter_stats now = g.queue(i).limit().stats();
    const std::string name = escaped(c.upstreams[i].name);
    for (std::size_t p = 0; p < now.classes.size(); ++p) {
      const class_stats& of = now.classes[p];
      const std::string labels = fmt::format("upstream=\"{}\",class=\"{}\"", name, escaped(c.classes[p]));
      fmt::format_to(std::back_inserter(waiting), "canigo_gateway_waiting{{{}}} {}\n", labels, of.waiting);
      for (const int e : edges) {
        const duration edge{std::int64_t{512} << (e + 3)};
        fmt::format_to(std::back_inserter(waits), "canigo_gateway_wait_seconds_bucket{{{},le=\"{}\"}} {}\n", labels,
                       seconds(edge), of.wait.count_below(edge));
      }
      fmt::format_to(std::back_inserter(waits),
                     "canigo_gateway_wait_seconds_bucket{{{0},le=\"+Inf\"}} {1}\n"
                     "canigo_gateway_wait_seconds_sum{{{0}}} {2}\ncanigo_gateway_wait_seconds_count{{{0}}} {1}\n",
                     labels, of.wait.count(), of.wait.sum().count());
    }
    for (std::size_t r = 0; r < now.tokens.size(); ++r) {
      fmt::format_to(std::back_inserter(level), "canigo_gateway_limit_level{{upstream=\"{}\",limit=\"{}\"}} {}\n", name,
                     r, now.tokens[r]);
    }
    const upstream_limit::status state = g.queue(i).limits().now();
    fmt::format_to(std::back_inserter(breaker), "canigo_gateway_breaker_state{{upstream=\"{}\",state=\"{}\"}} 1\n",
                   name, to_string(state.breaker));
    for (std::size_t cause = 0; cause < pause_cause_names.size(); ++cause) {
      const bool is_on = state.pauses.until(static_cast<pause_cause>(cause)) > std::chrono::steady_clock::now();
      fmt::format_to(std::back_inserter(paused), "canigo_gateway_paused{{upstream=\"{}\",cause=\"{}\"}} {}\n", name,
                     pause_cause_names[cause], is_on ? 1 : 0);
    }
    fmt::format_to(std::back_inserter(held), "canigo_gateway_held{{upstream=\"{}\"}} {}\n", name, now.held);
  }
  text += waiting + waits + level + held + breaker + paused;
  if (forwarded_hosts* hosts = g.hosts()) {
    // Hosts have no names here: there may be thousands of them.
    std::uint64_t waits_there = 0;
    const auto all = hosts->all();
    for (const auto& q : all) waits_there += q->limit().stats().waiting;
    fmt::format_to(out,
                   "# TYPE canigo_gateway_forwarded_hosts gauge\ncanigo_gateway_forwarded_hosts {}\n"
                   "# TYPE canigo_gateway_forwarded_waiting gauge\ncanigo_gateway_forwarded_waiting {}\n"
                   "# TYPE canigo_gateway_tunnels gauge\ncanigo_gateway_tunnels {}\n",
                   all.size(), waits_there, s.counts.tunnels.load());
  }
  fmt::format_to(
      out,
      "# TYPE canigo_gateway_running gauge\ncanigo_gateway_running {}\n"
      "# TYPE canigo_gateway_connections gauge\ncanigo_gateway_connections {}\n"
      "# TYPE canigo_gateway_retries_total counter\ncanigo_gateway_retries_total {}\n"
      "# TYPE canigo_gateway_hedges_total counter\n"
      "canigo_gateway_hedges_total{{result=\"started\"}} {}\ncanigo_gateway_hedges_total{{result=\"won\"}} {}\n"
      "# TYPE canigo_gateway_usage_missing_total counter\ncanigo_gateway_usage_missing_total {}\n"
      "# TYPE canigo_gateway_kept_bytes gauge\ncanigo_gateway_kept_bytes {}\n"
      "# TYPE canigo_gateway_log_lines_dropped_total counter\ncanigo_gateway_log_lines_dropped_total {}\n"
      "# TYPE canigo_gateway_bytes_total counter\n"
      "canigo_gateway_bytes_total{{direction=\"in\"}} {}\ncanigo_gateway_bytes_total{{direction=\"out\"}} {}\n",
      s.counts.running.load(), s.clients.all(), s.counts.retries.load(), s.counts.hedges.load(),
      s.counts.hedges_won.load(), s.counts.usage_missing.load(), s.kept.now(), s.log.dropped(),
      s.counts.bytes_in.load(), s.counts.bytes_out.load());
  return text;
}

nlohmann::json state(service& s, const generation& g) {
  constexpr std::array<std::string_view, 6> causes{"none", "paused", "rate", "concurrency", "share", "flow"};
  const config& c = g.settings;
  nlohmann::json all{
      {"draining", s.is_draining()}, {"connections", s.clients.all()}, {"running", s.counts.running.load()}};
  if (const shared_store* store = s.store()) {
    const shared_store::status redis = store->now();
    all["redis"] = {{"is_connected", redis.is_connected}, {"why", redis.why}};
  }
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < g.queues(); ++i) {
    limiter& l = g.queue(i).limit();
    const limiter_stats stats = l.stats();
    nlohmann::json u{
        {"name", c.upstreams[i].name}, {"waiting", stats.waiting}, {"held", stats.held}, {"levels", stats.tokens}};
    for (std::size_t p = 0; p < stats.classes.size(); ++p) {
      u["classes"].push_back({{"name", c.classes[p]},
                              {"waiting", stats.classes[p].waiting},
                              {"granted", stats.classes[p].granted},
                              {"wait_p50_ms", 1e3 * seconds(stats.classes[p].wait.quantile(0.5))},
                              {"wait_p99_ms", 1e3 * seconds(stats.classes[p].wait.quantile(0.99))}});
    }
    u["breaker"] = to_string(g.queue(i).limits().now().breaker);
    u["binds"] = causes[static_cast<std::size_t>(l.why_waiting().binds)];
    u["waiters"] = nlohmann::json::array();
    for (const waiting_request& w : l.waiting(50)) {
      u["waiters"].push_back({{"tag", w.tag},
                              {"class", c.classes[static_cast<std::size_t>(w.priority)]},
                              {"waited_ms", 1e3 * seconds(now - w.since)},
                              {"estimate_ms", 1e3 * seconds(w.estimate)},
                              {"waits_for", causes[static_cast<std::size_t>(w.reason.binds)]}});
    }
    all["upstreams"].push_back(std::move(u));
  }
  if (forwarded_hosts* hosts = g.hosts()) {
    constexpr std::size_t most_shown = 50;
    auto used = hosts->all();
    all["tunnels"] = s.counts.tunnels.load();
    all["forwarded_hosts"] = used.size();
    all["forwarded"] = nlohmann::json::array();
    used.resize(std::min(used.size(), most_shown));  // the ones that were used last
    for (const auto& q : used) {
      const limiter_stats stats = q->limit().stats();
      all["forwarded"].push_back(
          {{"name", q->settings().name}, {"waiting", stats.waiting}, {"held", stats.held}, {"levels", stats.tokens}});
    }
  }
  return all;
}

bool is_own_host(const admin_options& o, std::string_view host) {
  const auto colon = host.rfind(':');
  if (colon != host.npos && host.find(']', colon) == host.npos) host = host.substr(0, colon);
  return std::ranges::any_of(o.hosts, [&](const std::string& h) { return same_text(h, host); });
}

bool has_token(const admin_options& o, const message_head& head) {
  const std::string& token = o.token.value;
  if (o.token.source.empty()) return true;
  const std::string_view given = value_of(head, "authorization").value_or("");
  constexpr std::string_view scheme = "bearer ";
  return starts_with_text(given, scheme) && given.size() == scheme.size() + token.size() &&
         CRYPTO_memcmp(given.data() + scheme.size(), token.data(), token.size()) == 0;
}

}  // namespace

std::string admin_answer(service& s, const generation& g, const message_head& head, bool closes) {
  const bool to_head = head.method == "HEAD";
  const auto say = [&](int status, std::string_view type, const std::string& body) {
    return page(status, type, body, closes, to_head);
  };
  const std::string_view path = std::string_view{head.target}.substr(0, head.target.find('?'));
  if (head.method != "GET" && !to_head) return say(405, plain, "GET and HEAD are served\n");
  if (path == "/healthz") return say(200, plain, "ok\n");
  if (path == "/readyz") return s.is_draining() ? say(503, plain, "draining\n") : say(200, plain, "ready\n");
  const admin_options& o = *g.settings.admin;
  if (!is_own_host(o, value_of(head, "host").value_or(""))) return say(421, plain, "Host is none of admin.hosts\n");
  if (!has_token(o, head)) return say(401, plain, "Authorization: Bearer with admin.token is wanted\n");
  if (path == "/metrics") return say(200, "text/plain; version=0.0.4", metrics(s, g));
  if (path == "/api/state") return say(200, "application/json", state(s, g).dump() + '\n');
  return say(404, plain, "there is nothing here\n");
}

}  // namespace canigo::gateway
