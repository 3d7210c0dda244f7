#include "gateway/call/route_decision.hpp"

#include "gateway/policy/destination.hpp"
#include "gateway/policy/head_writer.hpp"
#include "gateway/wire/text.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

namespace canigo::gateway {
namespace {

/// The data that each step of decide_route() reads.
struct question {
  const config_snapshot& g;
  const connected_client& client;
  const message_head& head;
  const request_plan& plan;
};

route_decision::texts& texts_of(route_decision& to) {
  if (!to.own) to.own = std::make_unique<route_decision::texts>();
  return *to.own;
}

std::optional<refusal> find_tenant(const question& q, std::string_view replaced, bool is_proxy, call_record& r,
                                   route_decision& to) {
  const std::string& anonymous = q.g.settings.listeners[q.client.listener].anonymous;
  identification who =
      q.g.identities.find(q.head, {q.client.certificate_names, q.client.uid, anonymous}, replaced, is_proxy);
  if (who.refused) return std::move(who.refused);
  to.tenant = *who.tenant;
  r.tenant = q.g.settings.tenants[to.tenant].name;
  r.tenant_index = static_cast<std::uint32_t>(to.tenant);
  return std::nullopt;
}

/// In reverse mode, finds the upstream by the prefix of the request's path.
std::optional<refusal> find_upstream(const question& q, call_record& r, route_decision& to) {
  const auto found = q.g.routes.find(q.head.target);
  const upstream* u = found ? &q.g.settings.upstreams[*found] : nullptr;
  const std::string_view replaced = u != nullptr ? std::string_view{u->credential.header} : std::string_view{};
  if (auto refused = find_tenant(q, replaced, false, r, to)) return refused;
  if (u == nullptr) return refusal{404, "no_route", "no upstream has this prefix"};
  r.upstream = u->name;
  r.route = u->prefix;
  if (q.plan.is_websocket && !u->websocket) return refuse_websocket();
  // This shared_ptr does not own the queue, because the configuration snapshot owns it.
  to.queue = std::shared_ptr<upstream_queue>{std::shared_ptr<void>{}, &q.g.queue(*found)};
  const auto unchanged = unchanged_target(*u, q.plan.path);
  to.target = unchanged ? *unchanged : texts_of(to).target = target_for(*u, q.plan.path);
  to.host_field = u->url.host_field;
  to.is_tls = u->url.is_tls;
  return std::nullopt;
}

/// In forward mode, finds the queue of the host that the client names.
std::optional<refusal> find_host(const question& q, call_record& r, route_decision& to) {
  const forward_options& forward = *q.g.settings.forward;
  const request_plan& plan = q.plan;
  if (auto refused = find_tenant(q, {}, true, r, to)) return refused;
  if (r.host.empty()) r.host = texts_of(r).host = limit_name(plan.host, plan.port);
  const allowed_host* by = find_allowed(forward, plan.host, plan.port);
  if (by == nullptr) return refuse_destination(plan.host, plan.port);
  r.upstream = by->text;
  const bool is_tunnel = plan.form == target_form::tunnel;
  if (is_tunnel && forward.tunnels == 0) return refuse_tunnel();
  to.queue = q.g.hosts()->find(plan.host, plan.port, std::chrono::steady_clock::now());
  if (!to.queue) {
    return refusal{503, "queue_full", "as many hosts are in use as forward.hosts allows", std::chrono::seconds{1}};
  }
  to.is_tls = plan.is_tls;
  to.host_field = texts_of(to).host_field = host_field_of(plan.host, plan.port, plan.is_tls);
  // RFC 9112, 3.2.4: an OPTIONS request for the whole server comes to a proxy as an absolute target without a path, and
  // is sent on with the target "*".
  const bool is_for_server = q.head.method == "OPTIONS" && plan.path.empty();
  to.target = texts_of(to).target = is_for_server ? "*" : target_for(to.queue->settings(), plan.path);
  return std::nullopt;
}

}  // namespace

std::optional<refusal> decide_route(const config_snapshot& g, const connected_client& client, const message_head& head,
                                    const request_plan& plan, call_services& services, call_record& r,
                                    route_decision& to) {
  const question q{g, client, head, plan};
  auto refused = plan.form == target_form::origin ? find_upstream(q, r, to) : find_host(q, r, to);
  if (!refused) refused = judge_loop(head, services.via());
  if (refused) return refused;
  const config& c = g.settings;
  hint_reading hints = read_hints(head, c.tenants[to.tenant], c.classes, to.queue->settings().max_wait);
  if (hints.refused) return std::move(hints.refused);
  if (hints.granted.asked_above_best) services.counts.count_lowered(c.tenants[to.tenant].name);
  r.priority = c.classes[static_cast<std::size_t>(hints.granted.priority)];
  to.granted = hints.granted;
  return std::nullopt;
}

}  // namespace canigo::gateway
