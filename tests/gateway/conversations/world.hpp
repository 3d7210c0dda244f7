#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

namespace conversations {

/// An upstream of the gateway's configuration. What makes the gateway answer by itself differs between them.
struct upstream_kind {
  const char* name;
  bool is_tls;
  bool replaces_credential;
  bool counts_tokens;
  int attempts;
  std::size_t kept_body;  // retry.body
  const char* rest;       // of its table
};

constexpr std::size_t most_body = 3 << 19;  // limits.size.body: 1.5 MiB
constexpr const char* own_credential = "Bearer of-the-gateway";

constexpr std::array<upstream_kind, 7> upstreams{{
    {"plain", false, false, false, 3, 256 << 10, ""},
    {"counted", false, true, true, 3, 256 << 10,
     "rates = [{ limit = \"200/1s\", burst = 4 }, { limit = \"6000000/1s\", burst = 1000000, unit = \"tokens\" }]\n"
     "tokens = { api = \"openai\", default_output = 1 }\nqueue = 40\n"},
    {"narrow", false, false, false, 1, 0, "concurrency = 3\nqueue = 4\n"},
    {"hedged", false, false, false, 2, 1 << 10, "hedge = { after = \"10ms\" }\n"},
    {"fragile", false, true, true, 3, 64 << 10,
     "tokens = { api = \"bytes/4\" }\n"
     "breaker = { failures = \"50%\", of = 10, within = \"1s\", open = \"100ms\", most = \"200ms\" }\n"},
    {"secure", true, false, false, 3, 256 << 10, ""},
    {"secure_counted", true, true, true, 3, 256 << 10,
     "rates = [{ limit = \"200/1s\", burst = 4 }, { limit = \"6000000/1s\", burst = 1000000, unit = \"tokens\" }]\n"
     "tokens = { api = \"openai\", default_output = 1 }\nqueue = 40\n"},
}};
constexpr std::size_t narrow_upstream = 2, hedged_upstream = 3;

/// The tenants with a key of their own. Those behind them have none: the listener's own, and a stranger.
constexpr std::size_t tenants = 4, anonymous_tenant = tenants, stranger = tenants + 1;
std::string key_of(std::size_t tenant);

/// The gateway's configuration changes between these, and all of them lead to the same ports.
struct configuration {
  const char* buffered;    // limits.size.buffered
  const char* read_ahead;  // limits.size.read_ahead
  bool has_all;          // the narrow upstream and the last tenant are there
  std::size_t tunnels;
};
constexpr std::array<configuration, 4> configurations{{
    {"256MiB", "16MiB", true, 50},
    {"64KiB", "64KiB", true, 2},
    {"192KiB", "0B", true, 50},
    {"2MiB", "1MiB", false, 0},
}};

/// The ports of a run.
struct places {
  std::uint16_t plain = 0;  // listeners of the gateway
  std::uint16_t secure = 0;
  std::uint16_t forward = 0;
  std::uint16_t admin = 0;
  std::uint16_t dead = 0;  // nobody listens there
  std::array<std::uint16_t, upstreams.size()> upstream{};
};

std::string text_of(const configuration& c, const places& p, const std::filesystem::path& folder, bool with_tls);

}  // namespace conversations
