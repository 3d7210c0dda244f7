#include "gateway/config/places.hpp"

#include "gateway/wire/host_name.hpp"
#include "gateway/wire/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace canigo::gateway {
namespace {

/// The longest path that the address of a unix socket can hold.
constexpr std::size_t longest_socket_path = 107;

/// Whether the text is an absolute path of visible ASCII that all programs split into the same parts. False for
/// "/a/../b", "/a//b" and "/a%2Fb", for example.
bool is_plain_path(std::string_view path) noexcept {
  if (!path.starts_with('/')) return false;
  if (!std::ranges::all_of(path, [](char c) { return c > 0x20 && c < 0x7f; })) return false;
  if (path.find_first_of("?#%\\") != path.npos) return false;
  // Each part of the path must have a name. But the path may end with '/': then the part after that '/' is empty.
  path.remove_prefix(1);
  while (!path.empty()) {
    const auto slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    path.remove_prefix(slash == path.npos ? path.size() : slash + 1);
  }
  return true;
}

bool is_loopback(const host_name& host) noexcept {
  return host.what == host_name::kind::v4 ? host.text.starts_with("127.") : host.text == "::1";
}

}  // namespace

std::optional<listen_address> parse_listen_address(std::string_view text) {
  listen_address address;
  constexpr std::string_view socket = "unix:";
  if (text.starts_with(socket)) {
    const std::string_view path = text.substr(socket.size());
    const bool is_path = path.starts_with('/') && path.size() > 1 && path.size() <= longest_socket_path;
    if (!is_path || path.find('\0') != path.npos) return std::nullopt;
    address.path = path;
    return address;
  }
  // Only a listener's address may have port 0.
  const bool is_any_port = text.ends_with(":0");
  const auto found = parse_host_and_port(is_any_port ? text.substr(0, text.size() - 2) : text);
  if (!found || !found->host.is_address() || found->port.has_value() == is_any_port) return std::nullopt;
  address.host = found->host.text;
  address.port = found->port.value_or(0);
  address.is_loopback = is_loopback(found->host);
  return address;
}

std::optional<origin> parse_origin(std::string_view text) {
  origin o;
  if (starts_with_text(text, "https://")) {
    o.is_tls = true;
  } else if (!starts_with_text(text, "http://")) {
    return std::nullopt;
  }
  text.remove_prefix(text.find("//") + 2);
  const auto slash = text.find('/');
  const auto found = parse_host_and_port(text.substr(0, slash));
  if (!found) return std::nullopt;
  const std::uint16_t usual = o.is_tls ? 443 : 80;
  o.host = found->host.text;
  o.is_address = found->host.is_address();
  o.port = found->port.value_or(usual);
  o.host_field = host_field_of(found->host, o.port, o.is_tls);
  if (slash == text.npos) return o;
  std::string_view path = text.substr(slash);
  if (!is_plain_path(path)) return std::nullopt;
  if (path.ends_with('/')) path.remove_suffix(1);
  o.path = path;
  return o;
}

std::optional<allowed_host> parse_allowed_host(std::string_view text) {
  allowed_host allowed;
  constexpr std::string_view any = "*.";
  allowed.with_subdomains = text.starts_with(any);
  if (allowed.with_subdomains) text.remove_prefix(any.size());
  auto found = parse_host_and_port(text);
  if (!found || !found->port || (allowed.with_subdomains && found->host.is_address())) return std::nullopt;
  allowed.text = fmt::format("{}{}:{}", allowed.with_subdomains ? any : "", found->host.in_url(), *found->port);
  allowed.host = std::move(found->host.text);
  allowed.port = *found->port;
  return allowed;
}

std::optional<std::string> parse_prefix(std::string_view text) {
  if (!is_plain_path(text)) return std::nullopt;
  if (text.size() > 1 && text.ends_with('/')) text.remove_suffix(1);
  return std::string{text};
}

}  // namespace canigo::gateway
