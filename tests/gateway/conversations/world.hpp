#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

namespace conversations {

/// An upstream in the gateway's configuration. The upstreams differ in when the gateway answers by itself.
struct upstream_kind {
  const char* name;
  bool is_tls;
  bool replaces_credential;
  bool counts_tokens;
  int attempts;
  std::size_t kept_body;  // the value of `retry.body` in the configuration
  const char* rest;       // the further lines of its table in the configuration
};

constexpr std::size_t most_body = 3 << 19;  // the value of `limits.size.body` in the configuration: 1.5 MiB
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

/// The number of tenants with a key. The two indexes after them stand for the listener's anonymous tenant and a
/// stranger.
constexpr std::size_t tenants = 4, anonymous_tenant = tenants, stranger = tenants + 1;
std::string key_of(std::size_t tenant);

/// The variants between which the gateway's configuration changes. All of them have the same ports.
struct configuration {
  const char* buffered;    // the value of `limits.size.buffered`
  const char* read_ahead;  // the value of `limits.size.read_ahead`
  bool has_all;            // whether the configuration includes the narrow upstream and the last tenant
  std::size_t tunnels;
};
constexpr std::array<configuration, 4> configurations{{
    {"256MiB", "16MiB", true, 50},
    {"64KiB", "64KiB", true, 2},
    {"192KiB", "0B", true, 50},
    {"2MiB", "1MiB", false, 0},
}};

/// The ports used in a run.
struct places {
  std::uint16_t plain = 0;  // this and the next three: the ports of the gateway's listeners
  std::uint16_t secure = 0;
  std::uint16_t forward = 0;
  std::uint16_t admin = 0;
  std::uint16_t dead = 0;  // a port on which no process listens
  std::array<std::uint16_t, upstreams.size()> upstream{};
};

std::string text_of(const configuration& c, const places& p, const std::filesystem::path& folder, bool with_tls);

}  // namespace conversations
