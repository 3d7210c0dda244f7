#pragma once

#include "gateway/config/config.hpp"

#include <optional>
#include <string_view>

namespace canigo::gateway {

// The functions in this file return nothing if the text does not have the form that the function reads.

/// Reads "127.0.0.1:8080", "[::1]:8080" or "unix:/run/gateway.sock". Host names are not accepted. Port 0 means that the
/// kernel chooses a free port.
std::optional<listen_address> parse_listen_address(std::string_view text);
inline constexpr std::string_view listen_syntax =
    "ADDRESS:PORT, [IPV6]:PORT, or unix:/PATH of up to 107 bytes, such as \"127.0.0.1:8080\"";

/// Reads a URL such as "https://api.example.com". The URL may have a port and a path, but no user, query or fragment.
std::optional<origin> parse_origin(std::string_view text);
inline constexpr std::string_view origin_syntax =
    "http://HOST or https://HOST, with :PORT and /PATH if wanted; no user, query or fragment";

/// Reads a host that clients may reach, such as "example.com:443" or "*.example.com:443".
std::optional<allowed_host> parse_allowed_host(std::string_view text);
inline constexpr std::string_view allowed_host_syntax = "HOST:PORT or *.DOMAIN:PORT such as \"*.example.com:443\"";

/// Reads a prefix of request targets, such as "/openai", and removes a '/' at its end.
std::optional<std::string> parse_prefix(std::string_view text);
inline constexpr std::string_view prefix_syntax =
    "a path such as \"/openai\", of visible ASCII without ?, #, %, \\, //, . and .. as a part";

}  // namespace canigo::gateway
