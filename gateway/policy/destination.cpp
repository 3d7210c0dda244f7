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

std::optional<refusal> judge_destination(const forward_options& forward, const host_name& host, std::uint16_t port) {
  const bool is_allowed = std::ranges::any_of(forward.allow, [&](const allowed_host& a) {
    if (a.port != port) return false;
    return a.with_subdomains ? !host.is_address() && is_under(host.text, a.host) : host.text == a.host;
  });
  if (is_allowed) return std::nullopt;
  return refusal{403, "destination_forbidden", fmt::format("{} is not in forward.allow", limit_name(host, port))};
}

std::string limit_name(const host_name& host, std::uint16_t port) { return fmt::format("{}:{}", host.in_url(), port); }

}  // namespace canigo::gateway
