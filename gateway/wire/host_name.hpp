#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// A host in its one form, so that two spellings of a host never get two judgements.
struct host_name {
  enum class kind : std::uint8_t { name, v4, v6 };

  kind what = kind::name;
  std::string text;  ///< lower case, without the last dot and without brackets

  bool is_address() const noexcept { return what != kind::name; }
  /// As it stands in a URL or a Host field: an IPv6 address in brackets.
  std::string in_url() const { return what == kind::v6 ? '[' + text + ']' : text; }

  friend bool operator==(const host_name&, const host_name&) = default;
};

/// The host of a URL, a Host field or an authority, without a port.
///
/// Names consist of ASCII letters, digits, '-' and '_', with one dot at the end at most. An IPv4 address is four plain
/// decimal numbers, and an IPv6 address stands in brackets, without a zone. A name whose last label is a number is
/// refused: some resolvers read "0x7f.1" as an address.
std::optional<host_name> parse_host(std::string_view text);

/// A host and the port behind it, if there is one: "example.com:443", "[::1]:80", "example.com".
///
/// A port is 1 to 65535, of digits only. A colon without a port is refused.
struct host_and_port {
  host_name host;
  std::optional<std::uint16_t> port;
};
std::optional<host_and_port> parse_host_and_port(std::string_view text);

/// The value of Host for a URL: the port is left out if it is that of the scheme.
std::string host_field_of(const host_name& host, std::uint16_t port, bool is_tls);

/// 1 to 65535; up to 5 digits, the first of which is not 0.
std::optional<std::uint16_t> parse_port(std::string_view text) noexcept;

}  // namespace canigo::gateway
