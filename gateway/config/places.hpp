#pragma once

#include "gateway/config/config.hpp"

#include <optional>
#include <string_view>

namespace canigo::gateway {

// Each function returns nothing for a text of another form.

/// "127.0.0.1:8080", "[::1]:8080" or "unix:/run/gateway.sock"; a name is no address. Port 0 is any that is free.
std::optional<listen_address> parse_listen_address(std::string_view text);
inline constexpr std::string_view listen_syntax =
    "ADDRESS:PORT, [IPV6]:PORT, or unix:/PATH of up to 107 bytes, such as \"127.0.0.1:8080\"";

/// "https://api.example.com", with a port or a path if necessary, without a user, a query or a fragment.
std::optional<origin> parse_origin(std::string_view text);
inline constexpr std::string_view origin_syntax =
    "http://HOST or https://HOST, with :PORT and /PATH if wanted; no user, query or fragment";

/// Reads "example.com:443" or "*.example.com:443".
std::optional<allowed_host> parse_allowed_host(std::string_view text);
inline constexpr std::string_view allowed_host_syntax = "HOST:PORT or *.DOMAIN:PORT such as \"*.example.com:443\"";

/// A path as a prefix of targets, without the '/' at its end: "/openai".
std::optional<std::string> parse_prefix(std::string_view text);
inline constexpr std::string_view prefix_syntax =
    "a path such as \"/openai\", of visible ASCII without ?, #, %, \\, //, . and .. as a part";

}  // namespace canigo::gateway
