#include "gateway/config/restart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace canigo::gateway {
namespace {

bool is_same(const listen_address& a, const listen_address& b) {
  return a.host == b.host && a.port == b.port && a.path == b.path;
}

bool is_same_admin(const std::optional<admin_options>& a, const std::optional<admin_options>& b) {
  return a.has_value() == b.has_value() && (!a || is_same(a->listen, b->listen));
}

bool has_same_failure(const redis_failure& a, const redis_failure& b) { return a.what == b.what && a.share == b.share; }

/// Collects the values that have changed and need a restart of the process.
class comparison {
 public:
  void compare(bool is_same, std::string field) {
    if (!is_same) found_.push_back({std::move(field), ", which needs a restart"});
  }
  void compare_listeners(const std::vector<listener>& now, const std::vector<listener>& next) {
    if (now.size() != next.size()) {
      found_.push_back({"listen", " has another number of tables, which needs a restart"});
      return;
    }
    for (std::size_t i = 0; i < next.size(); ++i) {
      const std::string field = fmt::format("listen[{}].", i);
      compare(is_same(now[i].address, next[i].address), field + "address");
      compare(now[i].reuse_port == next[i].reuse_port, field + "reuse_port");
      compare(now[i].systemd == next[i].systemd, field + "systemd");
    }
  }
  /// Compares the values from which a limit is built. A limit can't be rebuilt while calls wait at it, so changes of
  /// these values need a restart.
  void compare_limits(const upstream& now, const upstream& next, const std::string& field) {
    compare_rates(now.rates, next.rates, field);
    if (now.targets.size() != next.targets.size()) {
      found_.push_back({field + "target", " has another number of tables, which needs a restart"});
    } else {
      for (std::size_t i = 0; i < next.targets.size(); ++i)
        compare_targets(now.targets[i], next.targets[i], fmt::format("{}target[{}].", field, i));
    }
    if (now.models.size() != next.models.size()) {
      found_.push_back({field + "model", " has another number of tables, which needs a restart"});
    } else {
      for (std::size_t i = 0; i < next.models.size(); ++i)
        compare_models(now.models[i], next.models[i], fmt::format("{}model[{}].", field, i));
    }
    compare(now.queue == next.queue, field + "queue");
    compare(now.on_overflow == next.on_overflow, field + "overflow");
  }
  std::vector<value_error> take() { return std::move(found_); }

 private:
  void compare_rates(const std::vector<rate_limit>& now, const std::vector<rate_limit>& next,
                     const std::string& field) {
    if (now.size() != next.size()) {
      found_.push_back({field + "rates", " has another number of rates, which needs a restart"});
      return;
    }
    for (std::size_t i = 0; i < next.size(); ++i) {
      compare(now[i].unit == next[i].unit, fmt::format("{}rates[{}].unit", field, i));
      compare(now[i].window == next[i].window, fmt::format("{}rates[{}].window", field, i));
    }
  }
  void compare_targets(const target& now, const target& next, const std::string& field) {
    compare(now.name == next.name, field + "name");
    compare(now.prefer == next.prefer, field + "prefer");
    compare_rates(now.rates, next.rates, field);
  }

  void compare_models(const model_limit& now, const model_limit& next, const std::string& field) {
    compare(now.match == next.match, field + "match");
    compare(now.is_together == next.is_together, field + "together");
    compare_rates(now.rates, next.rates, field);
  }

  std::vector<value_error> found_;
};

}  // namespace

std::vector<value_error> changes_for_restart(const config& now, const config& next) {
  comparison c;
  c.compare(now.threads == next.threads, "threads");
  c.compare(now.redis.source == next.redis.source && now.redis.value == next.redis.value, "redis");
  c.compare(now.redis_tls.ca == next.redis_tls.ca, "redis_tls.ca");
  c.compare(now.redis_tls.cert == next.redis_tls.cert, "redis_tls.cert");
  c.compare(now.redis_tls.key == next.redis_tls.key, "redis_tls.key");
  c.compare(now.state == next.state, "state");
  c.compare(now.classes == next.classes, "classes");
  c.compare(now.ageing == next.ageing, "ageing");
  c.compare(is_same_admin(now.admin, next.admin), "admin.listen");
  c.compare_listeners(now.listeners, next.listeners);
  if (now.forward && next.forward) c.compare_limits(now.forward->each, next.forward->each, "forward.");
  for (std::size_t i = 0; i < next.upstreams.size(); ++i) {
    const upstream& u = next.upstreams[i];
    const auto old = std::ranges::find(now.upstreams, u.name, &upstream::name);
    if (old == now.upstreams.end()) continue;
    const std::string field = fmt::format("upstream[{}].", i);
    c.compare_limits(*old, u, field);
    c.compare(old->shared == u.shared, field + "shared");
    c.compare(!u.shared || has_same_failure(old->on_redis_failure, u.on_redis_failure), field + "on_redis_failure");
  }
  return c.take();
}

}  // namespace canigo::gateway
