#include "gateway/wire/host_name.hpp"

#include "gateway/wire/text.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace canigo::gateway {
namespace {

constexpr std::size_t longest_name = 253;
constexpr std::size_t longest_label = 63;

bool is_label(std::string_view label) noexcept {
  return !label.empty() && label.size() <= longest_label && label.front() != '-' && label.back() != '-' &&
         std::ranges::all_of(label, [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_'; });
}

/// Whether a resolver may take the label for a number: digits, or 0x and hexadecimal digits.
bool is_number(std::string_view label) noexcept {
  if (std::ranges::all_of(label, is_digit)) return true;
  return label.size() >= 2 && label[0] == '0' && lower(label[1]) == 'x' &&
         std::ranges::all_of(label.substr(2),
                             [](char c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); });
}

bool is_name(std::string_view text) noexcept {
  if (text.size() > longest_name) return false;
  for (;;) {
    const auto dot = text.find('.');
    const std::string_view label = text.substr(0, dot);
    if (!is_label(label)) return false;
    if (dot == text.npos) return !is_number(label);
    text.remove_prefix(dot + 1);
  }
}

bool is_v4(std::string_view text) noexcept {
  for (int part = 0; part < 4; ++part) {
    const auto dot = text.find('.');
    const std::string_view number = text.substr(0, dot);
    unsigned value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool is_plain = error == std::errc{} && end == number.data() + number.size() && number.size() <= 3 &&
                          value <= 255 && (number.size() == 1 || number[0] != '0');
    if (!is_plain || (dot == text.npos) != (part == 3)) return false;
    text.remove_prefix(dot == text.npos ? text.size() : dot + 1);
  }
  return true;
}

std::optional<std::string> v6(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> room{};
  if (text.size() >= room.size() || text.find('\0') != text.npos) return std::nullopt;
  std::ranges::copy(text, room.begin());
  in6_addr address{};
  if (inet_pton(AF_INET6, room.data(), &address) != 1) return std::nullopt;
  if (inet_ntop(AF_INET6, &address, room.data(), room.size()) == nullptr) return std::nullopt;
  return std::string{room.data()};
}

}  // namespace

std::optional<host_name> parse_host(std::string_view text) {
  if (text.starts_with('[')) {
    if (!text.ends_with(']')) return std::nullopt;
    auto address = v6(text.substr(1, text.size() - 2));
    if (!address) return std::nullopt;
    return host_name{host_name::kind::v6, std::move(*address)};
  }
  if (is_v4(text)) return host_name{host_name::kind::v4, std::string{text}};
  if (text.ends_with('.')) text.remove_suffix(1);
  if (!is_name(text)) return std::nullopt;
  host_name host{host_name::kind::name, std::string{text}};
  std::ranges::transform(host.text, host.text.begin(), lower);
  return host;
}

std::optional<std::uint16_t> parse_port(std::string_view text) noexcept {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.size() > 5 || error != std::errc{} || end != text.data() + text.size() || text[0] == '0')
    return std::nullopt;
  return port;
}

std::optional<host_and_port> parse_host_and_port(std::string_view text) {
  const auto bracket = text.rfind(']');
  const auto colon = text.find(':', bracket == text.npos ? 0 : bracket);
  auto host = parse_host(text.substr(0, colon));
  if (!host) return std::nullopt;
  if (colon == text.npos) return host_and_port{std::move(*host), std::nullopt};
  const auto port = parse_port(text.substr(colon + 1));
  if (!port) return std::nullopt;
  return host_and_port{std::move(*host), port};
}

std::string host_field_of(const host_name& host, std::uint16_t port, bool is_tls) {
  const std::uint16_t usual = is_tls ? 443 : 80;
  return port == usual ? host.in_url() : host.in_url() + ':' + std::to_string(port);
}

}  // namespace canigo::gateway
