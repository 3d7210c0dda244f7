// Configurations of the gateway: each is taken or refused with reasons on one line each, and what is taken holds what
// its values promise.

#include "gateway/config/reader.hpp"
#include "target.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace gateway = canigo::gateway;

namespace {

void check(const gateway::config& c) {
  const int classes = static_cast<int>(c.classes.size());
  fuzz::require(classes >= 1 && c.ageing > canigo::duration::zero(), "there are classes, and an ageing");
  fuzz::require(!c.listeners.empty(), "there is a listener");
  for (const gateway::listener& l : c.listeners) {
    fuzz::require(l.anonymous.empty() || l.address.is_local(), "nobody is anonymous from elsewhere");
    fuzz::require(l.anonymous.empty() || std::ranges::count(c.tenants, l.anonymous, &gateway::tenant::name) == 1,
                  "an anonymous tenant is there once");
    fuzz::require(l.mode == gateway::listen_mode::reverse || c.forward.has_value(), "forward mode is set up");
  }
  for (const gateway::upstream& u : c.upstreams) {
    fuzz::require(u.prefix.starts_with('/') && (u.prefix == "/" || !u.prefix.ends_with('/')), "a prefix is a path");
    fuzz::require(static_cast<int>(u.max_wait.size()) == classes, "each class has a longest wait");
    fuzz::require(u.url.port != 0 && !u.url.host.empty() && !u.url.path.ends_with('/'), "a URL leads somewhere");
    fuzz::require(!u.shared || !c.redis.value.empty(), "what is shared has a Redis");
    for (const auto& r : u.rates) fuzz::require(r.burst >= 1 && !r.unit.empty(), "a rate has a burst and a unit");
  }
  for (const gateway::tenant& n : c.tenants) {
    fuzz::require(0 <= n.best_class && n.best_class <= n.default_class && n.default_class < classes,
                  "classes are known");
    fuzz::require(n.weight >= 1, "a tenant has a weight");
    for (const auto& [name, limit] : n.limits)
      fuzz::require(std::ranges::count(c.upstreams, name, &gateway::upstream::name) == 1, "a limit is of an upstream");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto read = gateway::parse_config(fuzz::input{data, size}.text());
  fuzz::require(read.value.has_value() == read.errors.empty(), "it is taken, or refused with reasons");
  if (read.value) check(*read.value);
  gateway::place last;
  for (const auto& e : read.errors) {
    fuzz::require(e.where >= last, "mistakes are in the order of the file");
    last = e.where;
    const std::string text = gateway::message_of(e, "f");
    fuzz::require(std::ranges::none_of(text, [](char c) { return c >= 0 && c < 0x20; }), "a mistake is on one line");
  }
  return 0;
}
