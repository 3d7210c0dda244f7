#include "gateway/policy/routes.hpp"

#include <algorithm>
#include <tuple>

namespace canigo::gateway {
namespace {

/// Returns the text that a path must begin with, and that is removed from it. It is empty for the prefix "/", which
/// matches every path.
std::string_view stripped(std::string_view prefix) noexcept { return prefix == "/" ? std::string_view{} : prefix; }

}  // namespace

route_table::route_table(const std::vector<upstream>& upstreams) {
  for (std::size_t i = 0; i < upstreams.size(); ++i) routes_.push_back({stripped(upstreams[i].prefix), i});
  std::ranges::sort(routes_, [](const route& a, const route& b) {
    return std::tuple{b.prefix.size(), a.upstream} < std::tuple{a.prefix.size(), b.upstream};
  });
}

std::optional<std::size_t> route_table::find(std::string_view target) const noexcept {
  const std::string_view path = target.substr(0, target.find('?'));
  for (const route& r : routes_)
    if (path.starts_with(r.prefix) && (path.size() == r.prefix.size() || path[r.prefix.size()] == '/'))
      return r.upstream;
  return std::nullopt;
}

std::string_view behind_prefix(const upstream& u, std::string_view path) noexcept {
  return path.substr(std::min(stripped(u.prefix).size(), path.size()));
}

std::string target_for(const upstream& u, std::string_view target) {
  const std::string_view rest = behind_prefix(u, target);
  std::string text = u.url.path;
  if (!rest.starts_with('/')) text += '/';
  return text.append(rest);
}

std::optional<std::string_view> unchanged_target(const upstream& u, std::string_view target) {
  const std::string_view rest = target.substr(stripped(u.prefix).size());
  if (!u.url.path.empty() || !rest.starts_with('/')) return std::nullopt;
  return rest;
}

}  // namespace canigo::gateway
