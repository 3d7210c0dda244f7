#include "gateway/supported.hpp"

#include <fmt/format.h>

namespace canigo::gateway {

std::vector<std::string> unsupported(const config& c) {
  std::vector<std::string> found;
  const auto refuse = [&](std::string text) { found.push_back(std::move(text) + " is not yet supported"); };
  if (c.forward) refuse("forward");
  if (!c.redis.source.empty()) refuse("redis");
  for (const listener& l : c.listeners) {
    if (l.mode != listen_mode::reverse) refuse("listen.mode other than \"reverse\"");
  }
  for (const upstream& u : c.upstreams) {
    const auto of = [&](std::string_view field) { return fmt::format("upstream \"{}\": {}", u.name, field); };
    if (u.shared) refuse(of("shared"));
    if (u.hedge_after) refuse(of("hedge"));
    if (u.breaker != breaker_options{}) refuse(of("breaker"));
  }
  return found;
}

}  // namespace canigo::gateway
