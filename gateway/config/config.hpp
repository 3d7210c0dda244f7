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

/// The configuration of canigo-gateway as plain values. Values that the file may leave out have defaults here.
///
/// The reader has checked the values: names are unique, and each index or name that refers to another part is valid.
namespace canigo::gateway {

/// A credential. Pages, logs and messages may show `source`, but never `value`.
struct secret {
  std::string source;  ///< "env:NAME" or "file:/path"; empty: there is no secret
  std::string value;   ///< the content of the source without line feeds at its end
};

/// The address of a listener: an IP address and a port, or the path of a unix socket.
struct listen_address {
  std::string host;        ///< an IPv4 or IPv6 address without brackets; empty for a unix socket
  std::uint16_t port = 0;  ///< 0: the kernel chooses a free port
  std::string path;        ///< the path of a unix socket
  bool is_loopback = false;

  bool is_unix() const noexcept { return !path.empty(); }
  /// Whether only programs on this machine can reach the listener.
  bool is_local() const noexcept { return is_unix() || is_loopback; }
};

/// The paths of a listener's PEM files.
struct tls_files {
  std::string cert;
  std::string key;
  std::string client_ca;  ///< the authorities that clients' certificates need; empty: clients need no certificate
};

/// The paths of PEM files for the TLS of a rediss:// URL. An empty path is not used.
struct redis_tls_files {
  std::string ca;    ///< trusted authorities, instead of the system's
  std::string cert;  ///< the gateway's own certificate
  std::string key;   ///< empty: the key is in the file `cert`
};

enum class listen_mode : std::uint8_t { reverse, forward, both };

struct listener {
  listen_address address;
  std::optional<tls_files> tls;
  bool reuse_port = false;
  std::string systemd;  ///< the name of a socket that systemd passes; empty: the gateway opens its own
  listen_mode mode = listen_mode::reverse;
  std::string anonymous;  ///< the tenant of clients without credentials; empty: such clients are refused
};

struct admin_options {
  listen_address listen;
  secret token;
  std::vector<std::string> hosts = {"localhost",
                                    "127.0.0.1"};  ///< the values of Host that are accepted, without the port
};

struct size_limits {
  std::uint64_t header = 16 << 10;      ///< the max number of bytes in a request's head
  std::size_t fields = 100;             ///< the max number of fields in a request's head
  std::uint64_t target = 8 << 10;       ///< the max number of bytes in a request's target
  std::uint64_t body = 64 << 20;        ///< the max number of bytes in a request's body
  std::uint64_t read_ahead = 16 << 20;  ///< how many bytes of a body are read before its call waits in the queue
  std::uint64_t buffered = 256 << 20;   ///< the max number of bytes of all requests' bodies that are kept at once
};

struct time_limits {
  duration header = std::chrono::seconds{10};       ///< how long a client may take to send a request's head
  duration body_idle = std::chrono::seconds{30};    ///< the longest pause between two bytes of a request's body
  duration write_stall = std::chrono::seconds{60};  ///< how long a client may accept no byte of a response
  duration keep_alive = std::chrono::seconds{75};   ///< how long a client's connection may be idle between two requests
};

struct connection_limits {
  std::size_t all = 20'000;
  std::size_t per_address = 2'000;
};

/// The scheme, host, port and path of an upstream's URL.
struct origin {
  bool is_tls = false;
  std::string host;         ///< lower case; an IPv6 address without brackets
  std::uint16_t port = 0;   ///< the port; never 0
  std::string path;         ///< a prefix for each target; empty, or begins with '/' and does not end with it
  bool is_address = false;  ///< whether the host is an IP address instead of a name
  /// The value of Host: an IPv6 address in brackets; the port only if it is not the scheme's default.
  std::string host_field;
};

/// The field with the gateway's credential for an upstream. It replaces the client's own field.
struct credential {
  std::string header;  ///< the name of the field; empty: the client's own credential is forwarded
  secret value;

  bool is_passed() const noexcept { return header.empty(); }
};

/// The treatment of shared rates while Redis does not answer.
struct redis_failure {
  enum class kind : std::uint8_t { closed, open, local };

  kind what = kind::closed;
  double share = 1;  ///< with `local`: this instance's share of each rate; more than 0, at most 1
};

enum class token_api : std::uint8_t { none, openai, anthropic, gemini, cohere, bedrock, bytes };

/// The max number of parts in the dotted name of a usage.
inline constexpr std::size_t most_usage_parts = 3;

/// Where a response reports its usage: names of JSON members from the top of the document, joined by '.'. All names of
/// one list mean the same number; if the response has several of them, the last one counts.
struct usage_names {
  std::vector<std::string> input;
  std::vector<std::string> more_input;  ///< added to the number that `input` names
  std::vector<std::string> output;
  std::vector<std::string> more_output;        ///< added to the number that `output` names
  std::vector<std::string> total;              ///< used only if the response has none of the other numbers
  std::vector<std::string> cached_input;       ///< a part of the number that `input` names
  std::vector<std::string> more_cached_input;  ///< a number that no other number includes; only prices use it

  friend bool operator==(const usage_names&, const usage_names&) = default;
};

struct token_options {
  /// `bytes`: tokens are estimated as a quarter of the body's length, and no usage is read.
  token_api api = token_api::none;
  std::uint64_t default_output = 512;
  bool learn = true;
  bool add_usage = false;               ///< adds stream_options.include_usage to a streaming request
  std::uint64_t output_weight = 1;      ///< the number of "tokens" for which one output token counts
  std::vector<call_pattern> free;       ///< calls that use no tokens
  std::vector<call_pattern> no_output;  ///< calls that use no output tokens, such as those for embeddings
  usage_names usage;

  bool reads_usage() const noexcept { return api != token_api::none && api != token_api::bytes; }

  friend bool operator==(const token_options&, const token_options&) = default;
};

/// When daily quotas are full again.
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
  int attempts = 3;              ///< the max number of attempts, including the first one
  std::uint32_t budget = 20;     ///< the max number of further attempts, in percent of the first attempts
  std::uint64_t body = 1 << 20;  ///< the largest body, in bytes, that is kept for another attempt

  friend bool operator==(const retry_options&, const retry_options&) = default;
};

struct breaker_options {
  int failures = 50;                           ///< the share of failed calls, in percent, that opens the breaker
  std::uint64_t of = 20;                       ///< the min number of calls in the window for the breaker to open
  duration within = std::chrono::seconds{30};  ///< the length of the window
  duration open = std::chrono::seconds{5};     ///< how long the breaker stays open the first time
  duration most = std::chrono::seconds{60};    ///< each failed probe doubles the open time, up to this value

  friend bool operator==(const breaker_options&, const breaker_options&) = default;
};

/// Replaces a path of the client, taken after the route's prefix, by another path and query at a target.
struct path_change {
  std::string from;  ///< the client's path, without a query
  std::string to;    ///< "{model}" in it is replaced by the model that the call names
};

/// One of several servers or accounts that serve the calls of an upstream: a key, a server, a region.
struct target {
  std::string name;
  origin url;
  gateway::credential credential;
  std::string provider = "generic";  ///< the preset that tells how to read this target's refusals
  std::vector<rate_limit> rates;     ///< has the same form as upstream::rates
  std::uint64_t concurrency = 64;
  int prefer = 1;                    ///< of the targets with capacity, one with the lowest number serves a call
  std::vector<std::string> models;   ///< patterns of models, which may end in '*'; empty: the target serves all models
  std::vector<path_change> paths;    ///< no two entries have the same `from`
  std::optional<bool> refusal_body;  ///< replaces upstream::refusal_body for this target
  quota_reset quota_resets = quota_reset::unknown;
  bool private_addresses = false;
  std::optional<budget_options> budget;  ///< no call waits for this budget
  std::string full_name;                 ///< "<upstream>/<target>", such as "chat/team-key": unique name of its budget
};

/// The most models of an upstream that have limits of their own.
inline constexpr std::size_t most_model_limits = 256;

/// Limits of some models. A call for such a model is also subject to the limits of the upstream.
struct model_limit {
  std::string match;         ///< a model's name, which may end in '*'
  bool is_together = false;  ///< true: all models that match share the limits; false: each model has limits for itself
  std::vector<rate_limit> rates;          ///< has the same form as upstream::rates
  std::uint64_t concurrency = unlimited;  ///< the max number of concurrent calls

  /// Whether each model that matches has limits of its own.
  bool is_for_each() const noexcept { return !is_together && match.ends_with('*'); }
};

/// A set of targets of an upstream: bit i stands for the target with index i.
using target_set = std::uint64_t;
inline constexpr std::size_t most_targets = 64;
inline constexpr target_set all_targets = ~target_set{0};

/// Determines which calls go to the same target while it has capacity: calls with the same header, cookie or beginning
/// of the prompt.
struct sticky_options {
  enum class kind : std::uint8_t { none, header, cookie, prompt_prefix };

  kind by = kind::none;
  std::string name;  ///< the name of the header or the cookie

  friend bool operator==(const sticky_options&, const sticky_options&) = default;
};

struct websocket_options {
  std::optional<rate> messages;              ///< the rate of messages from all clients together; none: unlimited
  duration idle = std::chrono::minutes{10};  ///< a websocket is closed after this time without a byte from either side
};

/// When a streaming client gets comments of the event stream while its call waits.
struct keep_alive_options {
  duration after = std::chrono::seconds{15};  ///< how long a call waits before the first comment
  duration every = std::chrono::seconds{10};  ///< the time between two comments
};

struct upstream {
  std::string name;
  origin url;
  std::string prefix;  ///< begins with '/', and does not end with it unless it is "/"
  gateway::credential credential;
  std::string provider = "generic";           ///< the preset whose values are used for keys that the file leaves out
  rate_window window = rate_window::average;  ///< the kind of window for rates that name none
  std::vector<rate_limit> rates;              ///< the unit of each rate is one of rate_units
  std::uint64_t concurrency = 64;
  std::size_t queue = 5'000;
  overflow on_overflow = overflow::evict_least_important;
  std::vector<duration> max_wait;  ///< the longest wait, by class; has one element for each class
  bool shared = false;
  redis_failure on_redis_failure;
  token_options tokens;
  std::optional<bool> refusal_body;  ///< whether the body of a 429 reports limits; none: yes if the usage is read
  /// When daily quotas reset; unknown: no call is refused because of them.
  quota_reset quota_resets = quota_reset::unknown;
  upstream_timeouts timeout;
  retry_options retry;
  breaker_options breaker;
  /// The delay after which a GET without a response gets a concurrent second attempt: a time, or a quantile of the
  /// times to the first byte. None: there is no second attempt.
  std::optional<hedge_delay> hedge_after;
  /// None: a waiting client gets no head of a response before its call is let through.
  std::optional<keep_alive_options> keep_alive;
  bool forwarded = false;          ///< adds Forwarded and X-Forwarded-*
  bool private_addresses = false;  ///< whether the host name may resolve to an address outside the public Internet
  /// The targets that serve the upstream's calls; empty: only the upstream's own URL does. Each call takes from the
  /// limits above and from the limits of one target. With targets, `url` and `credential` are those of the first
  /// target.
  std::vector<target> targets;
  std::vector<model_limit> models;  ///< a call is subject to the first element that matches its model
  sticky_options sticky;
  std::optional<websocket_options> websocket;  ///< none: websocket handshakes are refused
  std::optional<budget_options> budget;
  bool is_priced = false;  ///< whether calls to this upstream have prices

  /// Whether the model of a call must be read: a target serves only some models, or has a path with the model in it, or
  /// models have limits or prices.
  bool reads_model() const noexcept;
  bool reads_refusals() const noexcept { return refusal_body.value_or(tokens.reads_usage()); }
};

inline bool upstream::reads_model() const noexcept {
  return is_priced || !models.empty() || std::ranges::any_of(targets, [](const target& t) {
           return !t.models.empty() ||
                  std::ranges::any_of(t.paths, [](const path_change& p) { return p.to.find("{model}") != p.to.npos; });
         });
}

/// A host and port that clients may reach in forward mode.
struct allowed_host {
  std::string text;  ///< the text shown in log and metrics, such as "*.example.com:443"
  std::string host;  ///< in lower case, without a dot at its end
  /// "*.example.com": matches each name that ends in ".example.com", but not example.com itself.
  bool with_subdomains = false;
  std::uint16_t port = 0;
};

struct forward_options {
  std::vector<allowed_host> allow;
  upstream each;               ///< the settings of each host, except for its name and URL
  std::size_t hosts = 10'000;  ///< the max number of hosts that have limits at once
  std::size_t tunnels = 200;   ///< the max number of open tunnels to all hosts together
};

/// The limits of one tenant at one upstream.
struct tenant_limit {
  std::vector<rate_limit> rates;
  std::uint64_t concurrency = unlimited;
};

using key_digest = std::array<std::uint8_t, 32>;

struct tenant {
  std::string name;
  std::vector<key_digest> keys;      ///< the SHA-256 of each key of the tenant
  std::string subject;               ///< the subject or an alternative name in a client's certificate
  std::optional<std::uint32_t> uid;  ///< the user at the other end of a unix socket
  int default_class = 0;             ///< an index into config::classes
  int best_class = 0;                ///< the most important class that the tenant may use; not above default_class
  std::uint32_t weight = 1;
  duration max_wait = duration::max();         ///< the longest wait of the tenant's calls at any upstream
  std::map<std::string, tenant_limit> limits;  ///< the tenant's own limits, by the upstream's name
  std::optional<budget_options> budget;        ///< for calls to all upstreams whose calls have prices
};

struct access_log_options {
  enum class kind : std::uint8_t { standard_output, file, off };

  kind to = kind::standard_output;
  std::string path;
};

struct config {
  int threads = 0;  ///< 0: one thread per core, but at most 4
  secret redis;     ///< a URL; if its source is empty, Redis is not used
  redis_tls_files redis_tls;
  std::string prices_source;     ///< "file:/path"; empty: there are no prices
  price_list prices;             ///< the prices of calls to upstreams that count tokens
  bool refuses_unpriced = true;  ///< refuses a call for a model without a price, if a budget applies that refuses calls
  std::string state;             ///< the path of the file that keeps the sums of budgets; empty: they are not kept
  std::vector<std::string> classes = {"interactive", "normal", "batch"};  ///< the first one is the most important
  /// A waiting request moves up one class each time this has passed; max(): never.
  duration ageing = std::chrono::seconds{60};
  duration grace = std::chrono::seconds{25};  ///< how long a drain waits for running requests
  access_log_options access_log;
  std::optional<admin_options> admin;
  size_limits size;
  time_limits time;
  connection_limits connections;
  std::optional<forward_options> forward;
  std::vector<listener> listeners;
  std::vector<upstream> upstreams;
  std::vector<tenant> tenants;  ///< includes the tenants that only a listener's `anonymous` names
};

}  // namespace canigo::gateway
