#include "gateway/config/restart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace canigo::gateway {
namespace {

bool is_same(const listen_address& a, const listen_address& b) {
  return a.host == b.host && a.port == b.port && a.path == b.path;
}

bool has_same_socket(const listener& a, const listener& b) {
  return is_same(a.address, b.address) && a.reuse_port == b.reuse_port && a.systemd == b.systemd;
}

bool has_same_socket(const std::optional<admin_options>& a, const std::optional<admin_options>& b) {
  return a.has_value() == b.has_value() && (!a || is_same(a->listen, b->listen));
}

bool has_same_units(const upstream& a, const upstream& b) {
  return std::ranges::equal(a.rates, b.rates, {}, &rate_limit::unit, &rate_limit::unit);
}

bool has_same_failure(const redis_failure& a, const redis_failure& b) { return a.what == b.what && a.share == b.share; }

}  // namespace

std::vector<std::string> changes_for_restart(const config& now, const config& next) {
  std::vector<std::string> found;
  const auto compare = [&](bool is_same, std::string_view field) {
    if (!is_same) found.push_back(fmt::format("{} has changed", field));
  };
  compare(now.threads == next.threads, "threads");
  compare(now.redis.source == next.redis.source && now.redis.value == next.redis.value, "redis");
  compare(now.classes == next.classes, "classes");
  compare(now.ageing == next.ageing, "ageing");
  compare(has_same_socket(now.admin, next.admin), "admin.listen");
  compare(std::ranges::equal(now.listeners, next.listeners,
                             [](const listener& a, const listener& b) { return has_same_socket(a, b); }),
          "address, reuse_port or systemd of a [[listen]]");
  if (now.forward && next.forward) {
    const upstream& old = now.forward->each;
    const upstream& each = next.forward->each;
    compare(has_same_units(old, each), "forward: the number of its rates");
    compare(old.queue == each.queue, "forward: queue");
    compare(old.on_overflow == each.on_overflow, "forward: overflow");
  }
  for (const upstream& u : next.upstreams) {
    const auto old = std::ranges::find(now.upstreams, u.name, &upstream::name);
    if (old == now.upstreams.end()) continue;
    const auto compare_part = [&](bool is_same, std::string_view field) {
      compare(is_same, fmt::format("upstream \"{}\": {}", u.name, field));
    };
    compare_part(has_same_units(*old, u), "the number of its rates, or the unit of one,");
    compare_part(old->queue == u.queue, "queue");
    compare_part(old->on_overflow == u.on_overflow, "overflow");
    compare_part(old->shared == u.shared, "shared");
    compare_part(!u.shared || has_same_failure(old->on_redis_failure, u.on_redis_failure), "on_redis_failure");
  }
  return found;
}

}  // namespace canigo::gateway
