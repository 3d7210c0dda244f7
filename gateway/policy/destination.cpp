#include "gateway/policy/destination.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace canigo::gateway {
namespace {

bool is_under(std::string_view name, std::string_view domain) noexcept {
  return name.size() > domain.size() + 1 && name.ends_with(domain) && name[name.size() - domain.size() - 1] == '.';
}

}  // namespace

const allowed_host* find_allowed(const forward_options& forward, const host_name& host, std::uint16_t port) {
  const auto found = std::ranges::find_if(forward.allow, [&](const allowed_host& a) {
    if (a.port != port) return false;
    return a.with_subdomains ? !host.is_address() && is_under(host.text, a.host) : host.text == a.host;
  });
  return found == forward.allow.end() ? nullptr : &*found;
}

refusal refuse_tunnel() { return {403, "destination_forbidden", "forward.tunnels is 0"}; }

refusal refuse_destination(const host_name& host, std::uint16_t port) {
  return {403, "destination_forbidden", fmt::format("{} is not in forward.allow", limit_name(host, port))};
}

std::string limit_name(const host_name& host, std::uint16_t port) { return fmt::format("{}:{}", host.in_url(), port); }

upstream upstream_of(const forward_options& forward, const host_name& host, std::uint16_t port) {
  upstream u = forward.each;
  u.name = limit_name(host, port);
  u.url.host = host.text;
  u.url.port = port;
  u.url.is_address = host.is_address();
  return u;
}

}  // namespace canigo::gateway
