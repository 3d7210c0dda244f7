#pragma once

#include "canigo/hedge_options.hpp"
#include "canigo/rate.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include "gateway/config/budget.hpp"
#include "gateway/config/call_pattern.hpp"
#include "gateway/config/price_list.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// The configuration of canigo-gateway as plain values, with the defaults of those that its file may leave out.
///
/// A reader has checked them: names are unique, and each index and each name of another part is valid.
namespace canigo::gateway {

/// A credential. No page, log or message shows it: only `source` may be shown.
struct secret {
  std::string source;  ///< where it came from: "env:NAME" or "file:/path"; empty: there is none
  std::string value;   ///< without the line feeds at its end
};

/// The place of a listener: an address and a port, or a socket of the file system.
struct listen_address {
  std::string host;        ///< an IPv4 or IPv6 address without brackets; empty for a unix socket
  std::uint16_t port = 0;  ///< 0: any port that is free
  std::string path;        ///< the path of a unix socket
  bool is_loopback = false;

  bool is_unix() const noexcept { return !path.empty(); }
  /// Whether only programs of this machine reach the listener.
  bool is_local() const noexcept { return is_unix() || is_loopback; }
};

/// Files in PEM.
struct tls_files {
  std::string cert;
  std::string key;
  std::string client_ca;  ///< empty: no client shows a certificate
};

/// Files in PEM for the TLS of a rediss:// URL. Empty ones are not used.
struct redis_tls_files {
  std::string ca;    ///< the authorities that are trusted, instead of the system's
  std::string cert;  ///< the gateway's own certificate
  std::string key;   ///< empty: it is in `cert`
};

enum class listen_mode : std::uint8_t { reverse, forward, both };

struct listener {
  listen_address address;
  std::optional<tls_files> tls;
  bool reuse_port = false;
  std::string systemd;  ///< the name of a socket that systemd hands over; empty: the gateway opens one
  listen_mode mode = listen_mode::reverse;
  std::string anonymous;  ///< the tenant of a client without credentials; empty: there is none
};

struct admin_options {
  listen_address listen;
  secret token;
  std::vector<std::string> hosts = {"localhost",
                                    "127.0.0.1"};  ///< the values of Host that are accepted, without the port
};

struct size_limits {
  std::uint64_t header = 16 << 10;      ///< bytes of a request's head
  std::size_t fields = 100;             ///< the most fields of a request's head
  std::uint64_t target = 8 << 10;       ///< bytes of a request's target
  std::uint64_t body = 64 << 20;        ///< bytes of a request's body
  std::uint64_t read_ahead = 16 << 20;  ///< bytes of a body that are read before its call waits for its turn
  std::uint64_t buffered = 256 << 20;   ///< bytes of all bodies that are kept at once
};

struct time_limits {
  duration header = std::chrono::seconds{10};       ///< how long a client may take to send a request's head
  duration body_idle = std::chrono::seconds{30};    ///< without a byte of a request's body
  duration write_stall = std::chrono::seconds{60};  ///< without a byte that the client takes
  duration keep_alive = std::chrono::seconds{75};   ///< between two requests
};

struct connection_limits {
  std::size_t all = 20'000;
  std::size_t per_address = 2'000;
};

/// The origin that a route leads to.
struct origin {
  bool is_tls = false;
  std::string host;         ///< lower case; an IPv6 address without brackets
  std::uint16_t port = 0;   ///< never 0
  std::string path;         ///< comes before each target; empty, or begins with '/' and does not end with it
  bool is_address = false;  ///< the host is an address, not a name
  std::string host_field;   ///< the value of Host: with brackets, and with the port if it is not the scheme's
};

/// A field that the upstream gets instead of the client's own.
struct credential {
  std::string header;  ///< the field's name; empty: the client's own goes through
  secret value;

  bool is_passed() const noexcept { return header.empty(); }
};

/// The fate of shared rates while Redis is away.
struct redis_failure {
  enum class kind : std::uint8_t { closed, open, local };

  kind what = kind::closed;
  double share = 1;  ///< with `local`: this instance's part of each rate; more than 0, at most 1
};

enum class token_api : std::uint8_t { none, openai, anthropic, gemini, cohere, bedrock, bytes };

/// The most parts of a name of a usage.
inline constexpr std::size_t most_usage_parts = 3;

/// Where a response tells its usage: names of members, from the top of its document on, with '.' between them. All
/// names of a list stand for the same number, and the last one that the response has counts.
struct usage_names {
  std::vector<std::string> input;
  std::vector<std::string> more_input;  ///< added to the number that `input` names
  std::vector<std::string> output;
  std::vector<std::string> more_output;        ///< added to the number that `output` names
  std::vector<std::string> total;              ///< counts if the response has none of the others
  std::vector<std::string> cached_input;       ///< a part of the number that `input` names
  std::vector<std::string> more_cached_input;  ///< comes on top of all of them, and counts for prices alone

  friend bool operator==(const usage_names&, const usage_names&) = default;
};

struct token_options {
  token_api api = token_api::none;  ///< bytes: a quarter of the body's length, and no usage is read
  std::uint64_t default_output = 512;
  bool learn = true;
  bool add_usage = false;               ///< adds stream_options.include_usage to a request for a stream
  std::uint64_t output_weight = 1;      ///< how many tokens an output token counts for the unit "tokens"
  std::vector<call_pattern> free;       ///< calls that use no tokens
  std::vector<call_pattern> no_output;  ///< calls that use no output tokens, such as those for embeddings
  usage_names usage;

  bool reads_usage() const noexcept { return api != token_api::none && api != token_api::bytes; }

  friend bool operator==(const token_options&, const token_options&) = default;
};

/// When the quotas of a day are whole again.
enum class quota_reset : std::uint8_t { unknown, utc, pacific };
inline constexpr std::array<std::string_view, 3> quota_reset_names{"unknown", "00:00 UTC", "00:00 PT"};
constexpr std::string_view name_of(quota_reset r) noexcept { return quota_reset_names[static_cast<std::size_t>(r)]; }

struct upstream_timeouts {
  duration connect = std::chrono::seconds{5};
  duration first_byte = std::chrono::seconds{120};
  duration idle = std::chrono::seconds{120};
  duration total = std::chrono::minutes{15};

  friend bool operator==(const upstream_timeouts&, const upstream_timeouts&) = default;
};

struct retry_options {
  int attempts = 3;              ///< the first one included
  std::uint32_t budget = 20;     ///< percent of the first attempts
  std::uint64_t body = 1 << 20;  ///< bytes of a body that is kept for another attempt

  friend bool operator==(const retry_options&, const retry_options&) = default;
};

struct breaker_options {
  int failures = 50;                           ///< percent
  std::uint64_t of = 20;                       ///< the breaker stays closed while the window has fewer calls
  duration within = std::chrono::seconds{30};  ///< the window
  duration open = std::chrono::seconds{5};     ///< how long it is open the first time
  duration most = std::chrono::seconds{60};    ///< after each failed trial it is open twice as long, up to this

  friend bool operator==(const breaker_options&, const breaker_options&) = default;
};

/// A path of the client, behind the prefix, and the path and query that a target gets instead.
struct path_change {
  std::string from;  ///< without a query
  std::string to;    ///< "{model}" in it stands for the model that the call names
};

/// One of several places that serve the calls of an upstream: a key, a server, a region.
struct target {
  std::string name;
  origin url;
  gateway::credential credential;
  std::string provider = "generic";  ///< the preset that tells how its refusals are read
  std::vector<rate_limit> rates;     ///< as upstream::rates
  std::uint64_t concurrency = 64;
  int prefer = 1;                    ///< of those that have room, one with the lowest number serves a call
  std::vector<std::string> models;   ///< each may end in '*'; empty: it serves all
  std::vector<path_change> paths;    ///< each `from` once
  std::optional<bool> refusal_body;  ///< as upstream::refusal_body
  quota_reset quota_resets = quota_reset::unknown;
  bool private_addresses = false;
};

/// A set of the targets of an upstream: a bit for each, in their order.
using target_set = std::uint64_t;
inline constexpr std::size_t most_targets = 64;
inline constexpr target_set all_targets = ~target_set{0};

/// The part that calls have in common which go to the same target while it has room.
struct sticky_options {
  enum class kind : std::uint8_t { none, header, cookie, prompt_prefix };

  kind by = kind::none;
  std::string name;  ///< of the header or the cookie

  friend bool operator==(const sticky_options&, const sticky_options&) = default;
};

/// Websockets to an upstream.
struct websocket_options {
  std::optional<rate> messages;              ///< of all clients together; none: no bound
  duration idle = std::chrono::minutes{10};  ///< without a byte of either side
};

/// When the client of a call for a stream of events gets comments while the call waits.
struct keep_alive_options {
  duration after = std::chrono::seconds{15};  ///< how long a call waits before the first comment
  duration every = std::chrono::seconds{10};  ///< between two comments
};

struct upstream {
  std::string name;
  origin url;
  std::string prefix;  ///< begins with '/', and does not end with it unless it is "/"
  gateway::credential credential;
  std::string provider = "generic";           ///< the preset that has the values which the file leaves out
  rate_window window = rate_window::average;  ///< the window of rates that name none
  std::vector<rate_limit> rates;  ///< the unit of each is "requests", "tokens", "input_tokens" or "output_tokens"
  std::uint64_t concurrency = 64;
  std::size_t queue = 5'000;
  overflow on_overflow = overflow::evict_least_important;
  std::vector<duration> max_wait;  ///< by class; as many as there are classes
  bool shared = false;
  redis_failure on_redis_failure;
  token_options tokens;
  std::optional<bool> refusal_body;  ///< whether the body of a 429 tells of limits; none: if the usage is read
  quota_reset quota_resets = quota_reset::unknown;  ///< of quotas of a day; unknown: no call is refused for them
  upstream_timeouts timeout;
  retry_options retry;
  breaker_options breaker;
  /// When a second attempt of a GET without a response begins beside the first: after a time, or a quantile of the
  /// times to the first byte; none: never.
  std::optional<hedge_delay> hedge_after;
  std::optional<keep_alive_options> keep_alive;  ///< none: no client gets the head of a response before its turn
  bool forwarded = false;                        ///< adds Forwarded and X-Forwarded-*
  bool private_addresses = false;                ///< its name may lead to an address that is not of the public Internet
  /// The places that serve its calls; empty: its own URL is the only one. Each call takes from the limits above and
  /// from those of one target. `url` and `credential` are those of the first target then.
  std::vector<target> targets;
  sticky_options sticky;
  std::optional<websocket_options> websocket;  ///< none: no websocket is passed on
  std::optional<budget_options> budget;
  bool is_priced = false;  ///< its calls have prices

  /// Whether a target serves some models only, or has a path with the model in it, or the model has a price.
  bool reads_model() const noexcept;
  bool reads_refusals() const noexcept { return refusal_body.value_or(tokens.reads_usage()); }
};

inline bool upstream::reads_model() const noexcept {
  return is_priced || std::ranges::any_of(targets, [](const target& t) {
           return !t.models.empty() ||
                  std::ranges::any_of(t.paths, [](const path_change& p) { return p.to.find("{model}") != p.to.npos; });
         });
}

/// A host and a port that forward mode may reach.
struct allowed_host {
  std::string text;              ///< the text for log and metrics, such as "*.example.com:443"
  std::string host;              ///< lower case, without a dot at its end
  bool with_subdomains = false;  ///< "*.example.com": each name that ends in ".example.com", and not example.com itself
  std::uint16_t port = 0;
};

struct forward_options {
  std::vector<allowed_host> allow;
  upstream each;               ///< the settings of each host; its name and URL are its own
  std::size_t hosts = 10'000;  ///< hosts that have limits at once
  std::size_t tunnels = 200;   ///< tunnels that are open at once, to all hosts
};

/// The most that a tenant takes of one upstream.
struct tenant_limit {
  std::vector<rate_limit> rates;
  std::uint64_t concurrency = unlimited;
};

using key_digest = std::array<std::uint8_t, 32>;

struct tenant {
  std::string name;
  std::vector<key_digest> keys;      ///< SHA-256 of each key
  std::string subject;               ///< the subject or an alternative name in a client's certificate
  std::optional<std::uint32_t> uid;  ///< the user of the peer of a unix socket
  int default_class = 0;             ///< an index into config::classes
  int best_class = 0;                ///< the most important class that it may ask for; not above default_class
  std::uint32_t weight = 1;
  duration max_wait = duration::max();         ///< the longest wait of its calls, whatever upstreams allow
  std::map<std::string, tenant_limit> limits;  ///< by the upstream's name
  std::optional<budget_options> budget;        ///< of its calls to all upstreams whose calls have prices
};

struct access_log_options {
  enum class kind : std::uint8_t { standard_output, file, off };

  kind to = kind::standard_output;
  std::string path;
};

struct config {
  int threads = 0;  ///< 0: one per core, at most 4
  secret redis;     ///< a URL; its source is empty: none
  redis_tls_files redis_tls;
  std::string prices_source;     ///< "file:/path"; empty: there are no prices
  price_list prices;             ///< of calls to upstreams that count tokens
  bool refuses_unpriced = true;  ///< a call for a model without a price, where a budget would refuse a call
  std::string state;             ///< the path of the file that keeps the sums of budgets; empty: there is none
  std::vector<std::string> classes = {"interactive", "normal", "batch"};  ///< the first is the most important
  duration ageing = std::chrono::seconds{60};                             ///< max(): never
  duration grace = std::chrono::seconds{25};                              ///< how long a drain gives to requests
  access_log_options access_log;
  std::optional<admin_options> admin;
  size_limits size;
  time_limits time;
  connection_limits connections;
  std::optional<forward_options> forward;
  std::vector<listener> listeners;
  std::vector<upstream> upstreams;
  std::vector<tenant> tenants;  ///< with the tenants that only a listener's `anonymous` names
};

}  // namespace canigo::gateway
