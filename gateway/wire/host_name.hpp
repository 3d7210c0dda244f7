#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// A host in its canonical form, so that rules treat all spellings of a host alike.
struct host_name {
  enum class kind : std::uint8_t { name, v4, v6 };

  kind what = kind::name;
  std::string text;  ///< in lower case, without a dot at the end and without brackets

  bool is_address() const noexcept { return what != kind::name; }
  /// Returns the host as it stands in a URL or a Host field: an IPv6 address has brackets.
  std::string in_url() const { return what == kind::v6 ? '[' + text + ']' : text; }

  friend bool operator==(const host_name&, const host_name&) = default;
};

/// Parses the host of a URL, a Host field or an authority, without a port. Returns nothing for a text that is no host.
///
/// Names consist of ASCII letters, digits, '-' and '_', with one dot at the end at most. An IPv4 address is four plain
/// decimal numbers, and an IPv6 address stands in brackets, without a zone. A name whose last label is a number is
/// refused, because some resolvers read "0x7f.1" as an address.
std::optional<host_name> parse_host(std::string_view text);

/// A host, with an optional port: "example.com:443", "[::1]:80", "example.com".
///
/// A port consists of digits and is in the range 1 to 65535. A colon without a port after it is refused.
struct host_and_port {
  host_name host;
  std::optional<std::uint16_t> port;
};
std::optional<host_and_port> parse_host_and_port(std::string_view text);

/// Returns the value of the Host field for requests to a URL. The port is left out if it is the scheme's default.
std::string host_field_of(const host_name& host, std::uint16_t port, bool is_tls);

/// Parses a port from 1 to 65535, without leading zeros.
std::optional<std::uint16_t> parse_port(std::string_view text) noexcept;

}  // namespace canigo::gateway
