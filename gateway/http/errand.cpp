#include "gateway/http/connection.hpp"
#include "gateway/policy/destination.hpp"
#include "gateway/policy/head_writer.hpp"
#include "gateway/policy/text.hpp"

#include <chrono>
#include <utility>

// Whose a request is, where it goes, and how it is treated.
namespace canigo::gateway {

std::optional<refusal> connection::find_tenant(const generation& g, const message_head& head,
                                               bool replaces_authorization, bool is_proxy, call_record& r,
                                               errand& e) const {
  const std::string& anonymous = g.settings.listeners[*entrance_.listener].anonymous;
  identification who =
      g.identities.find(head, {certificate_names_, peer_uid_, anonymous}, replaces_authorization, is_proxy);
  if (who.refused) return std::move(who.refused);
  e.tenant = *who.tenant;
  r.tenant = g.settings.tenants[e.tenant].name;
  r.tenant_index = e.tenant;
  return std::nullopt;
}

/// Of reverse mode.
std::optional<refusal> connection::find_upstream(const generation& g, const message_head& head,
                                                 const request_plan& plan, call_record& r, errand& e) const {
  const config& c = g.settings;
  const auto found = g.routes.find(head.target);
  const upstream* to = found ? &c.upstreams[*found] : nullptr;
  const bool replaces = to != nullptr && same_text(to->credential.header, "authorization");
  if (auto refused = find_tenant(g, head, replaces, false, r, e)) return refused;
  if (to == nullptr) return refusal{404, "no_route", "no upstream has this prefix"};
  r.upstream = to->name;
  r.route = to->prefix;
  e.queue = std::shared_ptr<upstream_queue>{std::shared_ptr<void>{}, &g.queue(*found)};  // the generation keeps it
  e.target = target_for(*to, plan.path);
  e.host_field = to->url.host_field;
  e.is_tls = to->url.is_tls;
  return std::nullopt;
}

/// Of forward mode.
std::optional<refusal> connection::find_host(const generation& g, const message_head& head, const request_plan& plan,
                                             call_record& r, errand& e) const {
  const config& c = g.settings;
  if (auto refused = find_tenant(g, head, false, true, r, e)) return refused;
  if (r.host.empty()) r.host = limit_name(plan.host, plan.port);
  const allowed_host* by = find_allowed(*c.forward, plan.host, plan.port);
  if (by == nullptr) return refuse_destination(plan.host, plan.port);
  r.upstream = by->text;
  const bool is_tunnel = plan.form == target_form::tunnel;
  if (is_tunnel && c.forward->tunnels == 0) return refuse_tunnel();
  e.queue = g.hosts()->find(plan.host, plan.port, std::chrono::steady_clock::now());
  if (!e.queue) {
    return refusal{503, "queue_full", "as many hosts are in use as forward.hosts allows", std::chrono::seconds{1}};
  }
  e.is_tls = plan.is_tls;
  e.host_field = host_field_of(plan.host, plan.port, plan.is_tls);
  // RFC 9112, 3.2.4: OPTIONS for the server itself has an absolute target without a path.
  e.target = head.method == "OPTIONS" && plan.path.empty() ? "*" : target_for(e.queue->settings(), plan.path);
  return std::nullopt;
}

std::optional<refusal> connection::find_errand(const generation& g, const message_head& head, const request_plan& plan,
                                               call_record& r, errand& e) const {
  const config& c = g.settings;
  auto refused = plan.form == target_form::origin ? find_upstream(g, head, plan, r, e) : find_host(g, head, plan, r, e);
  if (!refused) refused = judge_loop(head, service_.via());
  if (refused) return refused;
  wish_reading wanted = read_wishes(head, c.tenants[e.tenant], c.classes, e.queue->settings().max_wait);
  if (wanted.refused) return std::move(wanted.refused);
  if (wanted.granted.asked_above_best) service_.counts.count_lowered(c.tenants[e.tenant].name);
  r.priority = c.classes[static_cast<std::size_t>(wanted.granted.priority)];
  e.granted = wanted.granted;
  return std::nullopt;
}

}  // namespace canigo::gateway
