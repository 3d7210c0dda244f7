#include "gateway/supported.hpp"

#include <fmt/format.h>

namespace canigo::gateway {

std::vector<std::string> unsupported(const config& c) {
  std::vector<std::string> found;
  const auto refuse = [&](std::string text) { found.push_back(std::move(text) + " is not yet supported"); };
  if (c.forward) refuse("forward");
  for (const listener& l : c.listeners) {
    if (l.mode != listen_mode::reverse) refuse("listen.mode other than \"reverse\"");
  }
  return found;
}

}  // namespace canigo::gateway
